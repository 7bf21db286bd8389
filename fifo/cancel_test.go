package fifo_test

import (
	"context"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A canceled job's handler learns of it. The job is back in its place, no attempt is counted, and it runs again when
// the group is resumed. Other groups' handlers go on, and a notice that no pause bears out does nothing.
func TestCancel(t *testing.T) {
	kinds, scopes := map[string]bool{"each": false, "slice": true}, map[string]bool{"group": true, "queue": false}
	pgtest.OverPairs(t, leases, kinds, scopes, func(t *testing.T, by lease, slice, group bool) {
		b := by.on(newBed(t))
		ids := b.send("a", "one", "two", "three")
		b.send("b", "other")
		h := newBlocking()
		batch, two := fifo.Queue{BatchJobs: 3}, func(w *fifo.Worker) { w.Concurrency = 2 }
		w := b.each(batch, h.handle, two)
		if slice {
			w = b.slice(batch, func(ctx context.Context, jobs []*fifo.Job) error {
				defer func(own string) { jobs[0].GroupID = own }(jobs[0].GroupID)
				jobs[0].GroupID = "not its own"
				return h.handle(ctx, jobs[0])
			}, two)
		}
		b.run(w)
		receive(t, h.started, "a handler")
		receive(t, h.started, "the other")
		b.listening()
		s, running := b.q, 2
		if group {
			s, running = s.Group("a"), 1
		}
		b.exec(`SELECT pg_notify('pgfifo', '{"q":"q","c":true,"p":9000000000000000}')`)
		b.exec(`SELECT pg_notify('pgfifo', '{"q":"q","g":[{"g":"b"}],"c":true,"p":9000000000000000}')`)
		was, jobs, err := s.Cancel(promptly(t), "stuck")
		require.NoError(t, err)
		require.False(t, was)
		require.Equal(t, 2+running, jobs)
		for range running {
			require.ErrorIs(t, receive(t, h.causes, "the end of a context"), fifo.ErrCanceled)
		}
		await(t, "the jobs to be back", func() bool { return w.Stats().Returned >= int64(running) })
		await(t, "nobody to hold them", func() bool { return len(b.groups(s, fifo.Page{}, fifo.Held)) == 0 })
		require.Empty(t, h.causes, "the others run")
		for _, job := range b.jobs() {
			require.Zero(t, job.Attempts)
			require.Empty(t, job.Failures)
		}
		held := b.sessionGroups
		if by != bySession {
			held = func() int { return len(b.groups(b.client, fifo.Page{}, fifo.Held)) }
		}
		require.Equal(t, 2-running, held())
		require.Equal(t, "stuck", b.why("a").PauseReason)
		require.Equal(t, fifo.Paused, b.why("a").State)
		if group { // what runs is let end by a pause
			require.NoError(t, pausing(b.q.Pause(promptly(t), "")))
		}
		close(h.release)
		if group {
			await(t, "the other's end", func() bool { return len(b.jobs()) == 3 })
			b.resumes(b.q)
		}
		b.resumes(s)
		b.drained()
		if group {
			order := b.ledger.order()
			require.Equal(t, ids, order[len(order)-3:])
		}
		require.Zero(t, w.Stats().Lost)
	})
}

// listening waits until the worker hears notices.
func (b *bed) listening() {
	b.t.Helper()
	await(b.t, "a listener", func() bool { return b.listeners() > 0 })
}

// ruled waits until the worker has heard of a Cancel or Terminate, and has asked the database for what it rules.
func (b *bed) ruled() {
	b.t.Helper()
	await(b.t, "the worker to hear of it", func() bool {
		return query[bool](b, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'idle'
			  AND query LIKE '-- Answers whether there is a pause of a queue or a group%')`)
	})
}

// Of a batch of groups, those whose handlers have not begun are canceled as well: they do not begin.
func TestCancelInABatchOfGroups(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, whole bool) {
		b := newBed(t)
		// Without notices, all are found at once. The first one may be handed to the lane before the others are in
		// line. They are by the time it has ended.
		b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
			SELECT 'q', g, '' FROM unnest('{a, b, c, d, e, f}'::text[]) g`)
		h := newBlocking()
		var warm atomic.Pointer[string]
		w := b.each(fifo.Queue{BatchGroups: 5}, func(ctx context.Context, job *fifo.Job) error {
			if warm.CompareAndSwap(nil, &job.GroupID) {
				return nil
			}
			return h.handle(ctx, job)
		}, oneLane)
		b.run(w)
		b.listening()
		first := receive(t, h.started, "a handler")
		held := slices.DeleteFunc(b.groups(b.q, fifo.Page{}, fifo.Held), func(g fifo.Status) bool {
			return g.GroupID == *warm.Load()
		})
		require.Greater(t, len(held), 1)
		s, of := b.q, slices.IndexFunc(held, func(g fifo.Status) bool { return g.HeadID == first })
		running, other := held[of], held[(of+1)%len(held)]
		if !whole {
			s = s.Group(other.GroupID)
		}
		e := b.listen()
		require.NoError(t, pausing(s.Cancel(t.Context(), "")))
		if !whole { // when the worker has heard this it has heard that
			e.next()
			require.NoError(t, pausing(b.q.Group(running.GroupID).Cancel(t.Context(), "")))
		}
		require.ErrorIs(t, receive(t, h.causes, "the end of a context"), fifo.ErrCanceled)
		if whole {
			await(t, "nobody to hold them", func() bool { return len(b.groups(s, fifo.Page{}, fifo.Held)) == 0 })
			require.Len(t, b.jobs(), 5)
			require.Empty(t, h.started, "the others do not begin")
		} else {
			close(h.release)
			await(t, "the others", func() bool { return b.count("jobs") == 2 })
			require.Len(t, h.started, 3)
			require.NotZero(t, b.why(other.GroupID).HeadID, "it is there")
			require.Empty(t, h.causes)
		}
		for _, job := range b.jobs() {
			require.Zero(t, job.Attempts)
		}
	})
}

// Handlers may have all connections of the client's pool.
func TestCancelWithoutThePool(t *testing.T) {
	b := newBed(t)
	b.send("g", nil)
	pool, h := b.onePool(), newBlocking()
	w := &fifo.Worker{Client: b.open(pool), Concurrency: 1}
	w.Handle("q", b.ledger.record(func(ctx context.Context, job *fifo.Job) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return h.handle(ctx, job)
	}))
	b.run(w)
	receive(t, h.started, "the handler")
	b.listening()
	require.NoError(t, pausing(b.q.Cancel(t.Context(), "")))
	require.ErrorIs(t, receive(t, h.causes, "the end of its context"), fifo.ErrCanceled)
}

// Workers are told of it when it is committed.
func TestCancelIsAnnounced(t *testing.T) {
	pgtest.OverAll(t, scopesWithin, func(t *testing.T, within scopeWithin) {
		b := newBed(t)
		e, q := b.listen(), b.q
		for want, s := range map[string]fifo.Scope{
			`{"q":"q","c":true}`: q, `{"q":"q","g":[{"g":"g","i":0}],"c":true}`: q.Group("g"),
		} {
			s, end := within(b, s)
			require.NoError(t, pausing(s.Cancel(t.Context(), "")))
			if end.commit != nil {
				require.Empty(t, e.before())
				require.NoError(t, end.commit())
			}
			require.JSONEq(t, want, e.canceled())
		}
	})
}

// canceled waits for the next notice, and returns it without the time of a Cancel.
func (e *ear) canceled() string {
	e.t.Helper()
	text := e.next()
	at := regexp.MustCompile(`,"p":[0-9]+`)
	require.Regexp(e.t, at, text)
	return at.ReplaceAllString(text, "")
}

// A Cancel is of the pause that it has made or found. A worker that hears of it late, when that has been undone, lets
// the jobs that have begun since run to their ends, whatever is paused by then.
func TestCancelIsOfItsPause(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, ofGroup bool) {
		b, h := newBed(t), newBlocking()
		s, e := b.q, b.listen()
		if ofGroup {
			s = s.Group("g")
		}
		require.NoError(t, pausing(s.Cancel(t.Context(), "")))
		late := e.next()
		b.resumes(s)
		b.send("g", nil)
		asked := &pgtest.Tracer{Having: "-- Answers whether there is a pause of a queue or a group"}
		b.run(b.worker(h.handle, func(w *fifo.Worker) {
			w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = asked }))
		}))
		receive(t, h.started, "the handler")
		b.listening()
		require.NoError(t, pausing(b.q.Pause(t.Context(), "")))
		require.NoError(t, pausing(b.q.Group("g").Pause(t.Context(), "")))
		for n := range 2 { // the second time, the first answer has been heard
			b.exec("SELECT pg_notify('pgfifo', $1)", late)
			await(t, "the worker to ask", func() bool { return asked.Queries.Load() > int64(n) })
		}
		require.Empty(t, h.causes)
		close(h.release)
		await(t, "the end of the job", func() bool { return b.count("jobs") == 0 })
	})
}

// The pause that it finds may be younger: of an operator for whose transaction it has waited, or of a clock that was
// set back.
func TestCancelFindsAYoungerPause(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, waits bool) {
		b, h := newBed(t), newBlocking()
		g := b.q.Group("g")
		b.send("g", nil)
		b.run(b.worker(h.handle))
		receive(t, h.started, "the handler")
		b.listening()
		require.NoError(t, pausing(g.Pause(t.Context(), "")))
		tx := b.beginWith("UPDATE pgfifo.pauses SET paused_at = statement_timestamp() + interval '1 hour'")
		if waits {
			require.NoError(t, second(g.InPgx(tx).Resume(t.Context())))
		} else {
			require.NoError(t, tx.Commit(t.Context()))
		}
		canceled := beside(func() error { return pausing(g.Cancel(t.Context(), "")) })
		if waits {
			await(t, "Cancel to wait", func() bool { return b.waiting("-- Pauses a group") })
			require.NoError(t, pausing(g.InPgx(tx).Pause(t.Context(), "")))
			require.NoError(t, tx.Commit(t.Context()))
		}
		require.NoError(t, receive(t, canceled, "Cancel"))
		require.ErrorIs(t, receive(t, h.causes, "the end of the handler's context"), fifo.ErrCanceled)
		close(h.release)
		b.resumes(g)
		b.drained()
	})
}

// A Cancel that could not be told is told later, also by a Client that is closed meanwhile: no poll finds it.
func TestCancelIsAnnouncedAgain(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, closed bool) {
		b := newBed(t)
		e, ended := b.listen(), make(chan struct{}, 2)
		operator := b.open(b.pooled(func(cfg *pgxpool.Config) {
			cfg.ConnConfig.RuntimeParams["application_name"] = "operator"
			cfg.ConnConfig.Tracer = &meanwhile{text: "pg_notify", few: 2, do: func() { // also at the end
				b.exec(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
					WHERE datname = current_database() AND application_name = 'operator'`)
				ended <- struct{}{}
			}}
		}))
		require.NoError(t, pausing(operator.Queue("q").Cancel(t.Context(), "")))
		if closed {
			receive(t, ended, "the connection to be ended")
			require.NoError(t, operator.Close())
		}
		require.JSONEq(t, `{"q":"q","c":true}`, e.canceled())
	})
}

// A slowClaim is a session's that the server works for as long as the test says.
type slowClaim struct{ *bed }

func (b *bed) slowClaims() slowClaim {
	b.t.Helper()
	b.exec(`CREATE TABLE gate (open boolean);
		CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			WHILE NOT EXISTS (SELECT FROM gate) LOOP PERFORM pg_sleep(0.002); END LOOP;
			RETURN NEW; END $$;
		CREATE TRIGGER wait BEFORE UPDATE ON pgfifo.queue_groups FOR EACH ROW
			WHEN (OLD.session IS NULL AND NEW.session IS NOT NULL) EXECUTE FUNCTION wait()`)
	return slowClaim{b}
}

// begins waits for a claim.
func (c slowClaim) begins() {
	c.t.Helper()
	await(c.t, "a claim", func() bool {
		return query[bool](c.bed, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'PgSleep')`)
	})
}

// ends lets it, and those after it, end.
func (c slowClaim) ends() {
	c.t.Helper()
	c.exec("INSERT INTO gate VALUES (true)")
}

// A claim that is under way when its group is canceled has not seen the pause. Its job does not begin, or its
// context ends.
func TestCancelOfAClaim(t *testing.T) {
	b := bySession.on(newBed(t))
	claim := b.slowClaims()
	b.send("g", "a")
	var resumed atomic.Bool
	w := b.worker(func(ctx context.Context, _ *fifo.Job) error {
		if !resumed.Load() {
			<-ctx.Done()
		}
		return context.Cause(ctx)
	})
	r := b.run(w)
	b.listening()
	claim.begins()
	_, jobs, err := b.q.Group("g").Cancel(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, 1, jobs)
	b.ruled()
	claim.ends()
	await(t, "the job to be back", func() bool { return w.Stats().Claims > 0 && b.sessionGroups() == 0 })
	resumed.Store(true)
	b.resumes(b.q.Group("g"))
	r.finish()
	require.Zero(t, w.Stats().Lost)
}
