package lease

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/conforming"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestHoldTellsTheJob(t *testing.T) {
	s := newStage(t)
	payload := []byte{0, 1, '\\', 0xff, '\n'}
	at := time.Date(2031, 2, 3, 4, 5, 6, 789000, time.UTC)
	s.Exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ($1, 'é \"''')", queue)
	for i := range 2 {
		s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload, attempts, max_attempts, enqueued_at) "+
			"VALUES ($1, 'é \"''', $2, $3, $4, $5)",
			queue, payload, 3+i, 9, at)
	}
	l := s.lane()
	h := s.claim(l, "é \"'")
	require.Equal(t, groups.Key{Queue: queue, GroupID: "é \"'"}, h.Key)
	require.Equal(t, int64(1), h.ID)
	require.Equal(t, payload, h.Payload)
	require.Equal(t, 3, h.Attempts)
	require.Equal(t, 9, h.MaxAttempts)
	require.True(t, h.EnqueuedAt.Equal(at), h.EnqueuedAt)
	require.True(t, h.More)
	s.end(l, succeed(h)...)
	require.Equal(t, payload, h.Payload, "it does not change under the handler's hands")
	h = s.claim(l, "é \"'")
	require.False(t, h.More)
}

// A row without what is to be there fails its claim, a head's as well as one of a job behind it.
func TestUnexpectedRows(t *testing.T) {
	four, eight := make([]byte, 4), make([]byte, 8)
	job := [][]byte{eight, {}, four, nil, eight, nil, eight, make([]byte, 6), {0}, nil, nil}
	head := slices.Concat(job, [][]byte{four, {0}, eight, eight, {0}})
	behind := slices.Concat(job, make([][]byte, 5))
	unmarked := slices.Replace(slices.Clone(behind), 8, 9, []byte(nil))
	type row struct {
		rows [][][]byte
		err  string
	}
	pgtest.OverAll(t, map[string]row{
		"none":                     {[][][]byte{head, behind, behind}, ""},
		"a head without its claim": {[][][]byte{behind, behind}, "column 12 "},
		"a second head":            {[][][]byte{head, head}, "column 12 "},
		"a job without a mark":     {[][][]byte{head, unmarked}, "column 9 "},
		"a head that is cut short": {[][][]byte{head[:15]}, "15 columns"},
		"a row that is cut short":  {[][][]byte{head, behind[:15]}, "15 columns"},
		"a row with a column more": {[][][]byte{head, append(slices.Clone(behind), nil)}, "17 columns"},
	}, func(t *testing.T, x row) {
		c := claim{of: &claims{}, next: &Request{}}
		var err error
		for _, values := range x.rows {
			r := rowReader{values: values}
			c.readJob(&r)
			err = errors.Join(err, r.end())
		}
		if x.err == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, errClaimRow)
		require.ErrorContains(t, err, x.err)
	})
}

func TestTimeFromPG(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		pgEpoch, pgEpoch.Add(-time.Microsecond), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
	} {
		us := (at.Unix()-pgEpoch.Unix())*1e6 + int64(at.Nanosecond()/1000)
		require.True(t, timeFromPG(us).Equal(at), at)
	}
}

// settled says whether the calls are committed, and the lane can go on unless it is closed.
func TestStepSettles(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a", "b")
	l := s.lane()
	ctx := t.Context()

	s.end(l)

	// A settling statement that fails: nothing is committed or claimed.
	b := &Request{Key: group("b")}
	require.ErrorContains(t, s.unsettled(l, retry(s.claim(l, "a"), "not a number"), b), "22P02")
	require.Empty(t, s.Locked())

	// One that changes no row.
	h := s.claim(l, "a")
	h.ID = 99
	require.ErrorIs(t, s.unsettled(l, succeed(h), nil), ErrNotHeld)

	// Commit itself fails, for a constraint that the handler's writes break.
	s.Exec("CREATE TABLE once (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	h = s.claim(l, "a")
	require.NoError(t, l.Lend(t.Context(), func() { s.do(s.pgxTx(h), "INSERT INTO once VALUES (1), (1)") }))
	require.ErrorContains(t, s.unsettled(l, succeed(h), b), "23505")
	require.Empty(t, s.Locked())

	// The claim fails behind a commit that did not.
	h = s.claim(l, "a")
	next, settled, err := l.Step(ctx, succeed(h), &Request{Key: group("not UTF-8: \xff")})
	require.ErrorContains(t, err, "22021")
	require.True(t, settled)
	require.Nil(t, next)
	require.True(t, l.Closed(), "what is left of the session is not to be trusted")
	l = s.lane()
	require.Equal(t, []int64{2, 3, 4}, pgtest.Column[int64](s.DB, "SELECT id FROM pgfifo.jobs ORDER BY id"))

	// A context that has ended costs the connection, at most.
	h = s.claim(l, "a")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, settled, err = l.Step(ended, succeed(h), nil)
	require.Error(t, err)
	require.False(t, settled)
	s.Until(func() bool { return len(s.Locked()) == 0 })
	if l.Closed() {
		l = s.lane()
	}
	require.Equal(t, int64(3), s.claim(l, "a").ID)
}

// Who has missed a group settles nothing in the transaction of that claim.
func TestStepWithoutAHold(t *testing.T) {
	s, _, h := held(t, 1)
	l := s.lane()
	require.Nil(t, s.step(l, nil, &Request{Key: group("a")}))
	require.ErrorIs(t, s.unsettled(l, succeed(h), &Request{Key: group("b")}), ErrNotHeld)
	require.False(t, l.Closed())
	require.Equal(t, byte('I'), l.pg().TxStatus())
	s.Enqueue(1, "b")
	require.NotNil(t, s.claim(l, "b"))
}

func TestStepOnDeadConnection(t *testing.T) {
	s, l, h := held(t, 1)
	s.Terminate(l.pg().PID())
	require.Error(t, s.unsettled(l, succeed(h), nil))
	require.True(t, l.Closed())
	require.Equal(t, 1, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
}

func TestDialFails(t *testing.T) {
	s := newStage(t)
	d := s.dialer(Bounds{})
	d.Statements["bad"] = "SELECT nonsense"
	for range 2 {
		_, err := d.Dial(t.Context())
		require.ErrorContains(t, err, "lease: prepare bad")
	}

	d = s.dialer(Bounds{})
	d.Pool.AfterConnect = func(context.Context, *pgx.Conn) error { return context.DeadlineExceeded }
	_, err := d.Dial(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)

	d = s.dialer(Bounds{})
	d.Pool.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return context.DeadlineExceeded }
	_, err = d.Connect(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)

	d = s.dialer(Bounds{})
	d.Pool.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.AfterNetConnect = nil
		return nil
	}
	_, err = d.Dial(t.Context())
	require.ErrorIs(t, err, errNotWatched)
	s.Until(func() bool {
		return pgtest.One[int](s.DB, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'lane of %' "+
			"AND datname = current_database()") == 0
	})
}

// The pool's own tracer and hooks see what lanes do, and its application_name goes first.
func TestDialerTakesThePoolsConfiguration(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	d := s.dialer(Bounds{})
	d.Pool.ConnConfig.RuntimeParams["application_name"] = "mine"
	traced := new(pgtest.Tracer)
	d.Pool.ConnConfig.Tracer = traced
	h := s.claim(s.dial(d), "a")
	var name string
	require.NoError(t, s.pgxTx(h).QueryRow(t.Context(), "SELECT current_setting('application_name')").Scan(&name))
	require.Equal(t, "mine", name)
	require.Positive(t, traced.Queries.Load())
}

// What the Bounds promise is in force: on a lane and on the scout's connection, in a transaction and out of it.
func TestBoundsAreInForce(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	d := s.dialer(Bounds{Heartbeat: time.Second, Silence: 2 * time.Second, ServerSilence: 12 * time.Second})
	d.Pool.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { // the application's, for its own sessions
		_, err := conn.Exec(ctx, "SET idle_in_transaction_session_timeout = '15min'; SET idle_session_timeout = '1s'")
		return err
	}
	var warned bytes.Buffer
	d.Logger = slog.New(slog.NewTextHandler(&warned, nil))
	l := s.dial(d)
	scout, err := d.Connect(t.Context())
	require.NoError(t, err)
	defer scout.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // the test is over
	want := map[string]string{
		"idle_in_transaction_session_timeout": "12s",
		"tcp_keepalives_idle":                 "4",
		"tcp_keepalives_interval":             "2",
		"tcp_keepalives_count":                "3",
		"tcp_user_timeout":                    "8000",
		"client_connection_check_interval":    "1s",
		"idle_session_timeout":                "0",
		"plan_cache_mode":                     "force_generic_plan",
		"application_name":                    d.Name[:min(len(d.Name), 63)],
	}
	version, err := strconv.Atoi(pgtest.One[string](s.DB, "SELECT current_setting('server_version_num')"))
	require.NoError(t, err)
	require.Equal(t, version/10000, serverVersion(scout.PgConn()))
	if version >= 170000 {
		want["transaction_timeout"] = "0"
	}
	h := s.claim(l, "a")
	tx := s.pgxTx(h)
	for setting, value := range want {
		var got, inTx string
		require.NoError(t, scout.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got))
		require.Equal(t, value, got, setting)
		if setting == "plan_cache_mode" {
			continue // the handler's own
		}
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&inTx))
		require.Equal(t, value, inTx, setting)
	}
	d.Bounds = Bounds{ServerSilence: math.MaxInt32 * time.Millisecond} // the longest that Validate takes
	longest, err := d.Connect(t.Context())
	require.NoError(t, err)
	defer longest.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // the test is over
	var got string
	require.NoError(t, longest.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&got))
	require.Equal(t, "2147483647ms", got)
	require.Empty(t, warned.String())
}

// Where a pool's queries bring texts, the connections beside the lanes have times that can be read. Handlers have the
// user's.
func TestTimesCanBeRead(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	d := s.dialer(Bounds{})
	d.Pool.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	d.Pool.ConnConfig.RuntimeParams["DateStyle"] = "SQL, DMY"
	scout, err := d.Connect(t.Context())
	require.NoError(t, err)
	defer scout.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // the test is over
	var now time.Time
	require.NoError(t, scout.QueryRow(t.Context(), "SELECT now()").Scan(&now))
	require.NotZero(t, now)
	var style string
	tx := s.pgxTx(s.claim(s.dial(d), "a"))
	require.NoError(t, tx.QueryRow(t.Context(), "SHOW DateStyle").Scan(&style))
	require.Equal(t, "SQL, DMY", style)
}

// A server that lacks a setting is used without it.
func TestSessionSettingThatIsNotThere(t *testing.T) {
	s := newStage(t)
	conn := s.Session()
	var warned bytes.Buffer
	// Larger than the server takes: it stands for a setting that is not there.
	bounds := Bounds{Silence: time.Second, ServerSilence: 10_000 * time.Hour}
	logger := slog.New(slog.NewTextHandler(&warned, nil))
	require.NoError(t, bounds.apply(t.Context(), conn.PgConn(), logger))
	require.Contains(t, warned.String(), "idle_in_transaction_session_timeout")
	var got string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting('enable_seqscan')").Scan(&got))
	require.Equal(t, "off", got, "the others are made")
}

// Handlers may use bun on a lane, which has an encoding of its own choice, whatever the pool says, but not if the
// application changes it behind that.
func TestLaneRefusesNonconformingSessions(t *testing.T) {
	s := newStage(t)
	d := s.dialer(Bounds{})
	refuses := func() {
		t.Helper()
		_, err := d.Dial(t.Context())
		require.ErrorIs(t, err, conforming.Err)
		_, err = d.Connect(t.Context())
		require.ErrorIs(t, err, conforming.Err)
	}
	d.Pool.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
	refuses()
	d = s.dialer(Bounds{})
	d.Pool.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1"
	require.Equal(t, "UTF8", s.dial(d).pg().ParameterStatus("client_encoding"))
	d.Pool.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET client_encoding = 'LATIN1'")
		return err
	}
	refuses()
}

func TestSessionValidate(t *testing.T) {
	t.Parallel()
	for _, s := range []Bounds{
		{},
		{Heartbeat: time.Second, Silence: 2 * time.Second, ServerSilence: 4500*time.Millisecond + 2},
		{Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3400 * time.Millisecond},
		{ServerSilence: 17 * time.Second},
		{ServerSilence: time.Hour},
		{ServerSilence: math.MaxInt32 * time.Millisecond},
		{Heartbeat: time.Millisecond},
	} {
		require.NoError(t, s.Validate(), s)
	}
	for _, s := range []Bounds{
		{Heartbeat: -1},
		{Heartbeat: 1},
		{Heartbeat: time.Millisecond - 1},
		{Silence: -1},
		{ServerSilence: -1},
		{Silence: 99 * time.Millisecond},
		{ServerSilence: 16 * time.Second},
		{Heartbeat: time.Second, Silence: 2 * time.Second, ServerSilence: 4500 * time.Millisecond},
		// What the server may give away after 2 s, with its reply on its way, TCP does not notice before.
		{Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3 * time.Second},
		{Silence: 25 * time.Second},
		{Silence: time.Hour},
		{ServerSilence: (math.MaxInt32 + 1) * time.Millisecond},
		{ServerSilence: math.MaxInt64},
		// The sum, or the whole seconds, of these would be no Durations.
		{Heartbeat: math.MaxInt64 / 2, Silence: math.MaxInt64/2 + 2},
		{Silence: math.MaxInt64},
		{Heartbeat: math.MaxInt64},
	} {
		require.Error(t, s.Validate(), s)
	}
	require.Equal(t, Bounds{time.Second, 10 * time.Second, 30 * time.Second}, Bounds{}.WithDefaults())
	own := Bounds{time.Minute, time.Hour, 2 * time.Hour}
	require.Equal(t, own, own.WithDefaults())
}
