package fifo_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// late returns a network that can hold back a cancel request, and a client whose workers use it.
func (b *bed) late() (*netfault.Late, *fifo.Client) {
	b.t.Helper()
	late := netfault.NewLate()
	return late, b.open(b.pooled(func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = late.Dial(cfg.ConnConfig.DialFunc)
	}))
}

// forsaken runs a statement whose context ends, and whose cancel request is held back.
func forsaken(ctx context.Context, job *fifo.Job, late *netfault.Late) error {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	late.Hold()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	return second(tx.Exec(ctx, "SELECT pg_sleep(0.1)"))
}

// arrives delivers the request when a query says so.
func (b *bed) arrives(late *netfault.Late, sql string) {
	await(b.t, "the time to deliver", func() bool { return query[bool](b, sql) })
	late.Deliver()
}

func hasty(w *fifo.Worker) { w.Heartbeat, w.Silence = 100*time.Millisecond, time.Second }

// A cancel request that comes late reaches no other job, be it of another group or of the same batch.
func TestLateCancelRequest(t *testing.T) {
	seconds := map[string]string{"another group": "b", "the same batch": "a"}
	pgtest.OverAll(t, seconds, func(t *testing.T, second string) {
		b := newBed(t)
		late, client := b.late()
		b.send("a", nil)
		b.send(second, nil)
		delivered, begun := make(chan struct{}), 0
		w := b.each(fifo.Queue{BatchJobs: 2}, func(ctx context.Context, job *fifo.Job) error {
			if begun++; begun == 1 {
				return forsaken(ctx, job, late)
			}
			go func() {
				defer close(delivered)
				b.arrives(late, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
			}()
			return errors.Join(exec(ctx, job, "SELECT pg_sleep(2)"), ctx.Err())
		}, oneLane, hasty, func(w *fifo.Worker) { w.Client = client })
		b.work(w)
		<-delivered
		require.Equal(t, []fifo.Outcome{fifo.Succeeded, fifo.Succeeded}, b.ledger.outcomes())
	})
}

// A job whose settling a late cancel request meets has not failed: it runs again, as it was.
func TestLateCancelRequestMeetsTheSettling(t *testing.T) {
	b := newBed(t)
	b.exec(`CREATE TABLE once (v integer);
		CREATE SEQUENCE times;
		CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN IF nextval('times') = 1 THEN PERFORM pg_sleep(60); END IF; RETURN OLD; END $$;
		CREATE TRIGGER dawdle BEFORE DELETE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION dawdle()`)
	late, client := b.late()
	b.send("a", nil)
	delivered := make(chan struct{})
	begun := 0
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		require.Zero(t, job.Attempts)
		if begun++; begun == 1 {
			go func() {
				defer close(delivered)
				b.arrives(late, "SELECT is_called FROM times")
			}()
			if err := forsaken(ctx, job, late); err != nil {
				return err
			}
		}
		return exec(ctx, job, "INSERT INTO once VALUES (1)")
	}, oneLane, hasty, func(w *fifo.Worker) { w.Client, w.MaxAttempts = client, 1 }))
	<-delivered
	require.Equal(t, []fifo.Outcome{fifo.Returned, fifo.Succeeded}, b.ledger.outcomes())
	require.Equal(t, 1, query[int](b, "SELECT count(*) FROM once"))
}

// Whatever way a handler takes the session's prepared statements away, its job succeeds.
func TestStatementsTakenAway(t *testing.T) {
	raw := withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
		return second(tx.Conn().PgConn().Exec(ctx, "DEALLOCATE ALL").ReadAll())
	})
	unseen := func(ctx context.Context, job *fifo.Job) error { return exec(ctx, job, tidying) }
	type row struct {
		take fifo.Handler
		jobs int
		want map[fifo.Outcome]int
	}
	pgtest.OverAll(t, map[string]row{
		"by the raw connection":    {raw, 1, map[fifo.Outcome]int{fifo.Succeeded: 3}},
		"unseen":                   {unseen, 1, map[fifo.Outcome]int{fifo.Returned: 1, fifo.Succeeded: 3}},
		"unseen, of a batch":       {unseen, 3, map[fifo.Outcome]int{fifo.Returned: 1, fifo.Succeeded: 3}},
		"by the raw one, of those": {raw, 3, map[fifo.Outcome]int{fifo.Succeeded: 3}},
	}, func(t *testing.T, x row) {
		b := newBed(t)
		b.send("a", nil, nil, nil)
		b.work(b.each(fifo.Queue{BatchJobs: x.jobs}, x.take, oneLane))
		got := map[fifo.Outcome]int{}
		for _, o := range b.ledger.outcomes() {
			got[o]++
		}
		require.Equal(t, x.want, got)
		require.Empty(t, b.deadLetters())
	})
}

// tidying is SQL that takes the session's prepared statements away where nobody looks.
const tidying = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"

// A job that is given back is not counted, also if its lane's statements are gone. The first jobs of a lane are marked,
// and end with one statement more.
func TestGivenBackWithoutStatements(t *testing.T) { overLeases(t, testGivenBackWithoutStatements) }

func testGivenBackWithoutStatements(t *testing.T, by lease) {
	b := by.on(newEffects(t))
	h := newBlocking()
	r := b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.GroupID != "last" {
			return nil
		}
		return errors.Join(exec(ctx, job, tidying), h.handle(ctx, job))
	}, oneLane, func(w *fifo.Worker) { w.DrainTimeout, w.MaxAttempts = -1, 1 }))
	b.send("first", slices.Repeat([]any{nil}, 12)...)
	b.drained()
	b.send("last", nil)
	receive(t, h.started, "the handler")
	require.NoError(t, r.stop())
	outcomes, _, _ := b.ledger.of("last")
	require.Equal(t, []fifo.Outcome{fifo.Returned}, outcomes)
	require.Empty(t, b.deadLetters())
	require.Zero(t, only(t, b.jobs()).Attempts)
}

// When it is known that handlers do that, the session is given up behind one that has: what pgx has prepared in it is
// gone as well, and the next handler would meet that.
func TestTidyHandlerHarmsNoOther(t *testing.T) { overLeases(t, testTidyHandlerHarmsNoOther) }

func testTidyHandlerHarmsNoOther(t *testing.T, by lease) {
	b := by.on(newEffects(t))
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		err := write(ctx, job, int(job.ID))
		if err == nil && job.GroupID == "tidy" {
			err = exec(ctx, job, tidying)
		}
		return err
	}, oneLane, func(w *fifo.Worker) { w.MaxAttempts = 1 }))
	for range 3 {
		for _, group := range []string{"tidy", "other"} {
			b.send(group, nil)
			b.drained()
		}
	}
	require.Equal(t, slices.Repeat([]fifo.Outcome{fifo.Succeeded}, 3), b.ends("other", 3))
	require.Empty(t, b.deadLetters())
	require.Len(t, b.effects(), 6)
}

// A handler has the session's planner settings; what settles its job has the library's, or a plan that was made for an
// empty table would read a whole backlog. So it is on a lane that goes through a pooler, whose session has none.
func TestPlannerSettingsBehindAHandler(t *testing.T) {
	overLeases(t, func(t *testing.T, by lease) { testPlannerSettingsBehindAHandler(t, by.on(newBed(t))) })
	t.Run("pooler", func(t *testing.T) {
		b := bySession.on(newBed(t))
		testPlannerSettingsBehindAHandler(t, b, func(w *fifo.Worker) { w.Direct = b.pool.Config().ConnConfig })
	})
}

func testPlannerSettingsBehindAHandler(t *testing.T, b *bed, opts ...func(*fifo.Worker)) {
	const show = "concat_ws(' ', current_setting('plan_cache_mode'), current_setting('enable_seqscan'), " +
		"current_setting('enable_bitmapscan'), current_setting('jit'))"
	b.exec(`CREATE TABLE seen (settings text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO seen SELECT ` + show + `; RETURN OLD; END $$;
		CREATE TRIGGER seen BEFORE DELETE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION see()`)
	b.send("g", nil)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		return exec(ctx, job, "INSERT INTO seen SELECT "+show)
	}, opts...))
	require.Equal(t, "force_generic_plan off off off", query[string](b, "SELECT settings FROM seen OFFSET 1"))
	require.NotEqual(t, "force_generic_plan off off off", query[string](b, "SELECT settings FROM seen LIMIT 1"))
}

// A lane that goes through a pooler has in its transactions what ends them if its worker dies, and no time for a job
// that is not the worker's.
func TestBoundsOfAPooledLane(t *testing.T) {
	b := bySession.on(newBed(t))
	limit := query[bool](b, "SELECT EXISTS (SELECT FROM pg_settings WHERE name = 'transaction_timeout')")
	if limit { // from PostgreSQL 17 on
		b.exec("ALTER DATABASE " + query[string](b, "SELECT current_database()") + " SET transaction_timeout = '1min'")
	}
	b.exec("CREATE TABLE seen (settings text)")
	b.send("g", nil)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		return exec(ctx, job, "INSERT INTO seen SELECT concat_ws(' ', "+
			"current_setting('idle_in_transaction_session_timeout'), "+
			"current_setting('client_connection_check_interval'), current_setting('transaction_timeout', true))")
	}, func(w *fifo.Worker) { w.Direct = b.pool.Config().ConnConfig }))
	want := "30s 1s"
	if limit {
		want += " 0"
	}
	require.Equal(t, want, query[string](b, "SELECT settings FROM seen"))
}
