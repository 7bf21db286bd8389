package pgfifo_test

import (
	"cmp"
	"context"
	"database/sql"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// What the function stores is what Client.Enqueue stores, for a producer, in its transaction, and without a notice; and
// a worker finds it.
func TestEnqueueFunction(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *staff) {
		ctx, pool := t.Context(), s.as(s.roles.Producer)
		c := s.client(pool, func(c *fifo.Config) { c.PollOnly = true })
		for _, m := range []fifo.Message{
			{Queue: queue, GroupID: "Zürich", Payload: `{"a": "\n"}`},
			{
				Queue: queue, GroupID: "g", Payload: []byte{0, 0xff},
				Headers: fifo.Headers{"a": "ü", "b": "\x00\xff", "c": ""},
			},
			{Queue: queue, GroupID: "g", Delay: time.Hour, MaxAttempts: 3, Priority: 9},
			{Queue: queue, GroupID: "g", RunAt: time.Now().Add(48 * time.Hour)},
			{Queue: queue, GroupID: "g", RunAt: time.Now().Add(-time.Hour), Headers: fifo.Headers{}},
		} {
			ids, err := c.Enqueue(ctx, m)
			require.NoError(t, err)
			var headers, delay, runAt any // NULL
			if m.Headers != nil {
				headers = m.Headers
			}
			if m.Delay > 0 {
				delay = m.Delay
			}
			if !m.RunAt.IsZero() {
				runAt = m.RunAt
			}
			payload, call := m.Payload, "$3::bytea"
			if _, is := payload.(string); is {
				call = "$3"
			}
			if payload == nil {
				payload = []byte{}
			}
			var id int64
			require.NoError(t, pool.QueryRow(ctx, s.sql("SELECT id FROM pgfifo.enqueue($1, $2, "+call+
				", headers => $4, delay => $5, run_at => $6, max_attempts => $7, priority => $8)"),
				m.Queue, m.GroupID, payload, headers, delay, runAt, m.MaxAttempts, m.Priority).Scan(&id))
			require.Equal(t, ids[0].ID+1, id)
			require.Equal(t, 1, s.number(`SELECT count(*) FROM (SELECT DISTINCT queue, group_id, payload, headers,
				max_attempts, priority, date_trunc('hour', run_at - enqueued_at + interval '1 minute')
				FROM pgfifo.jobs WHERE id IN ($1, $2)) j`, ids[0].ID, id), "%+v", m)
		}
		s.exec("TRUNCATE pgfifo.jobs")

		listener := s.Session()
		listener.Do("LISTEN " + ident(s.channel()))
		require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, s.sql(`SELECT pgfifo.enqueue('q', 'g', n::text, '{"h": "1"}')
				FROM generate_series(1, 3) n ORDER BY n DESC`))
			return err
		}))
		require.NoError(t, s.begin(pool, "SELECT pgfifo.enqueue('q', 'g', 'undone')").Rollback(ctx))
		_, err := pool.Exec(ctx, "SELECT pg_notify($1, 'the first')", s.channel())
		require.NoError(t, err)
		n, err := listener.WaitForNotification(ctx)
		require.NoError(t, err)
		require.Equal(t, "the first", n.Payload)

		var got []string
		w := &fifo.Worker{
			Client: s.client(s.as(s.roles.Worker)), Concurrency: 1, PollInterval: 100 * time.Millisecond,
		}
		w.Handle(queue, func(_ context.Context, job *fifo.Job) error {
			got = append(got, string(job.Payload)+job.Headers["h"])
			return nil
		})
		s.work(w, "the jobs", func() bool { return s.number("SELECT count(*) FROM pgfifo.jobs") == 0 })
		require.Equal(t, []string{"31", "21", "11"}, got)

		for _, role := range []string{s.roles.Reader, s.roles.Admin, outsider} {
			for _, payload := range []string{"'x'", "'x'::bytea", "'1'::jsonb"} {
				call := "SELECT pgfifo.enqueue('q', 'g', " + payload + ")"
				requireRefused(t, s.try(s.as(role), call), role+": "+call)
			}
		}
	})
}

// channel is where workers listen.
func (s *staff) channel() string {
	return cmp.Or(s.schema, "pgfifo")
}

// What Client.Enqueue refuses, the function does, and the error says what is wrong.
func TestEnqueueFunctionRefuses(t *testing.T) {
	s := newStaff(t, "")
	pool := s.as(s.roles.Producer)
	const value, null, large = "22023", "22004", "54000"
	for _, bad := range []struct{ args, code, says string }{
		{"'', 'g', 'x'", value, "queue is 0 bytes long, not 1 to 128"},
		{"NULL, 'g', 'x'", null, "queue is null"},
		{"'q', NULL, 'x'", null, "group_id is null"},
		{"'q', repeat('ü', 65), 'x'", value, "group_id is 130 bytes long"},
		{`'q', E'a\nb', 'x'`, value, `group_id "a\nb" contains U+000A, which is not printable`},
		{"'q', 'g', NULL", null, "payload is null"},
		{"'q', 'g', repeat('x', 1048577)", large, "payload and headers have 1048577 bytes, at most 1048576"},
		{`'q', 'g', repeat('x', 1048574), '{"a": {"base64": "AAA="}}'`, large, "have 1048577 bytes"},
		{
			"'q', 'g', 'x', jsonb_build_object('a', jsonb_build_object('base64', repeat(E'\\n', 5000000)))", large,
			"headers have over 8388608 bytes as text",
		},
		{"'q', 'g', 'x', '[]'", value, "headers have to be a JSON object"},
		{"'q', 'g', 'x', 'null'", value, "headers have to be a JSON object"},
		{`'q', 'g', 'x', '{"a": 1}'`, value, `header "a" has to be a string`},
		{`'q', 'g', 'x', '{"a": {"base64": null}}'`, value, `header "a" has to be a string`},
		{`'q', 'g', 'x', '{"a": {"base64": "!"}}'`, value, "base64"},
		{`'q', 'g', 'x', '{"a": {"base64": "YWJj ZGVm"}}'`, value, `header "a" has to be a string`},
		{`'q', 'g', 'x', '{"": "a"}'`, value, "header name is 0 bytes long"},
		{`'q', 'g', 'x', '{"a\tb": "a"}'`, value, `header name "a\tb" contains U+0009`},
		{"'q', 'g', 'x', delay => '-1 us'", value, "delay -00:00:00.000001 is negative"},
		{"'q', 'g', 'x', delay => '366 days'", value, "is over 365 days from now"},
		{"'q', 'g', 'x', delay => '1 s', run_at => now()", value, "delay and run_at exclude each other"},
		{"'q', 'g', 'x', run_at => 'infinity'", value, "infinity is over 365 days from now"},
		{"'q', 'g', 'x', max_attempts => -1", value, "max_attempts -1 is negative"},
		{"'q', 'g', 'x', priority => 10", value, "priority 10 is not 0 to 9"},
		{"'q', 'g', 'x', dedup_id => ''", value, "dedup_id is 0 bytes long"},
		{"'q', 'g', 'x', dedup_id => repeat('x', 129)", value, "dedup_id is 129 bytes long"},
		{"'q', 'g', 'x', dedup_id => E'a\\nb'", value, `dedup_id "a\nb" contains U+000A`},
		{"'q', 'g', 'x', replace => true", value, "replace needs a dedup_id"},
		{"'q', 'g', 'x', ungrouped => true", value, "ungrouped and group_id exclude each other"},
		{"NULL, NULL, 'x', ungrouped => true", null, "queue is null"},
	} {
		err := s.try(pool, "SELECT pgfifo.enqueue("+bad.args+")")
		var pgErr *pgconn.PgError
		require.ErrorAs(t, err, &pgErr, bad.args)
		require.Equal(t, bad.code, pgErr.Code, "%s: %v", bad.args, err)
		require.Contains(t, pgErr.Message, bad.says, bad.args)
	}
	for _, good := range []string{
		`'q', 'g', repeat('x', 1048573), '{"a": {"base64": "AAA="}}'`, "'q', repeat('ü', 64), ''", "' ', ' ', 'x'",
		"'q', 'g', 'x', delay => '365 days'", "'q', 'g', 'x', delay => '0'", "'q', 'g', 'x', run_at => '-infinity'",
		"'q', 'g', 'x', dedup_id => ' '", "'q', 'g', 'x', replace => NULL, ungrouped => NULL, commit_order => NULL",
	} {
		require.NoError(t, s.try(pool, "SELECT pgfifo.enqueue("+good+")"), good)
	}
}

// A name is printable for the function if it is for the library, also if Unicode has not assigned it yet.
func TestEnqueueFunctionNames(t *testing.T) {
	s := newStaff(t, "")
	var printable, others []string
	var names strings.Builder
	for r := rune(1); r <= unicode.MaxRune; r++ {
		switch {
		case r >= 0xd800 && r < 0xe000, unicode.In(r, unicode.Han, unicode.Hangul) && r&0xff != 0: // a few of those
		case r&0xff != 0 && r&0xfffe != 0xfffe && !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S,
			unicode.Cc, unicode.Cf, unicode.Co, unicode.Z): // and of those without a meaning
		case groups.ValidateID("name", string(r)) == nil:
			if names.WriteRune(r); names.Len() > 120 {
				printable = append(printable, names.String())
				names.Reset()
			}
		case unicode.Is(unicode.Co, r) && r&0xff != 0: // and of those in private use
		default:
			others = append(others, string(r))
		}
	}
	const each = `SELECT array_agg(n) FROM unnest($1::text[]) AS n WHERE pg_temp.refused(n) = $2`
	conn := s.Session()
	conn.Do(`CREATE FUNCTION pg_temp.refused(name text) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pgfifo.enqueue('q', name, '');
			RETURN false;
		EXCEPTION WHEN invalid_parameter_value THEN
			RETURN true;
		END $$`)
	for refused, list := range map[bool][]string{true: printable, false: others} {
		var wrong []string
		require.NoError(t, conn.QueryRow(t.Context(), each, list, refused).Scan(&wrong))
		require.NotEmpty(t, list)
		require.Empty(t, wrong, "refused: %v", refused)
	}
}

// A delay begins with the call, and not with the statement or the procedure around it.
func TestEnqueueFunctionInAProcedure(t *testing.T) {
	s := newStaff(t, "")
	s.exec(`DO $$
		DECLARE began timestamptz;
		BEGIN
			PERFORM pg_sleep(0.2);
			began := clock_timestamp();
			PERFORM pgfifo.enqueue('q', 'g', 'x', delay => '0.1 s');
			ASSERT (SELECT run_at >= began + interval '0.1 s' AND enqueued_at >= began FROM pgfifo.jobs);
		END $$`)
}

// The function waits a quarter of a second for who has the job locked that it is to replace, however long its statement
// has run.
func TestEnqueueFunctionReplacesInAProcedure(t *testing.T) {
	s := newStaff(t, "")
	const again = "SELECT pgfifo.enqueue('q', 'g', 'x', delay => '1 hour', dedup_id => 'd', replace => true)"
	s.exec(again)
	tx, err := s.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM pgfifo.jobs FOR UPDATE")
	require.NoError(t, err)
	s.exec(`DO $$
		DECLARE began timestamptz;
		BEGIN
			PERFORM pg_sleep(0.3);
			began := clock_timestamp();
			` + strings.Replace(again, "SELECT", "PERFORM", 1) + `;
			ASSERT clock_timestamp() > began + interval '0.2 s', 'it has not waited';
		END $$`)
	require.NoError(t, tx.Rollback(t.Context()))
}

// In the order of commits, who enqueues to a group waits for another one that has: by the function or by a client.
func TestEnqueueFunctionInOrder(t *testing.T) {
	s := newStaff(t, "")
	ctx, pool := t.Context(), s.as(s.roles.Producer)
	client := s.client(pool, func(c *fifo.Config) { c.CommitOrder = true })
	tx := s.begin(pool, "SELECT pgfifo.enqueue('q', 'Zürich', 'first', commit_order => true)")
	ended := make(chan error, 2)
	go func() {
		_, err := client.Enqueue(ctx, fifo.Message{Queue: "q", GroupID: "Zürich"})
		ended <- err
	}()
	go func() {
		_, err := pool.Exec(ctx, "SELECT pgfifo.enqueue('q', 'Zürich', 'third', commit_order => true)")
		ended <- err
	}()
	s.until("both to wait", func() bool {
		return s.number(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'advisory'`) == 2
	})
	_, err := pool.Exec(ctx, "SELECT pgfifo.enqueue('q', 'Zürich', 'waits for nobody')")
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	require.Equal(t, 4, s.number("SELECT count(*) FROM pgfifo.jobs"))
}

// until waits for a condition.
func (s *staff) until(what string, cond func() bool) {
	s.Helper()
	require.True(s, pgtest.Wait(3*patience, cond), "waited in vain for %s", what)
}

// A table of the application's has a trigger that enqueues, and rows come from psql and from another driver, of logins
// that are producers.
func TestEnqueueFunctionElsewhere(t *testing.T) {
	s := newStaff(t, "")
	s.exec(`CREATE TABLE orders (id integer, note text)`)
	s.exec("GRANT INSERT ON orders TO " + ident(s.roles.Producer))
	s.exec(`CREATE FUNCTION placed() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pgfifo.enqueue('orders', 'customer-7', to_jsonb(NEW), headers => jsonb_build_object('by', TG_OP));
			RETURN NULL;
		END $$`)
	s.exec("CREATE TRIGGER placed AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION placed()")
	url := s.as(s.roles.Producer).Config().ConnString()

	db, err := sql.Open("postgres", url) // lib/pq
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO orders VALUES ($1, $2)", 1, "lib/pq")
	require.NoError(t, err)
	var text, raw int64
	require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT id FROM pgfifo.enqueue($1, $2, $3, delay => $4)",
		"other", "g", `a "text" \n`, "1 hour").Scan(&text))
	require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT id FROM pgfifo.enqueue($1, $2, $3::bytea)",
		"other", "g", []byte{0, 0xff}).Scan(&raw))
	require.Less(t, text, raw)
	for _, duplicate := range []bool{false, true} {
		var got bool
		require.NoError(t, tx.QueryRowContext(t.Context(),
			"SELECT duplicate FROM pgfifo.enqueue($1, $2, $3, dedup_id => $4)", "other", "g", "once", "a").Scan(&got))
		require.Equal(t, duplicate, got)
	}
	require.NoError(t, tx.Commit())
	_, err = db.ExecContext(t.Context(), "SELECT pgfifo.enqueue('', 'g', 'x')")
	var pqErr *pq.Error
	require.ErrorAs(t, err, &pqErr)
	require.Equal(t, "invalid_parameter_value", pqErr.Code.Name())
	require.Equal(t, "queue is 0 bytes long, not 1 to 128", pqErr.Message)

	if psql, err := exec.LookPath("psql"); err == nil {
		run := func(sql string) (string, error) {
			cmd := exec.CommandContext(t.Context(), psql, "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql, url)
			out, err := cmd.CombinedOutput()
			return strings.TrimSpace(string(out)), err
		}
		out, err := run("INSERT INTO orders VALUES (2, 'psql'); " +
			"SELECT id FROM pgfifo.enqueue('other', 'g', 'from psql', max_attempts => 1)")
		require.NoError(t, err, out)
		const there = "SELECT count(*) FROM pgfifo.jobs WHERE id = $1::text::bigint AND max_attempts = 1"
		require.Equal(t, 1, s.number(there, out))
		out, err = run("SELECT duplicate, replaced " +
			"FROM pgfifo.enqueue('other', 'g', 'newer', dedup_id => 'a', replace => true)")
		require.NoError(t, err, out)
		require.Equal(t, "t|t", out)
		out, err = run("SELECT pgfifo.enqueue('other', NULL, 'from psql')")
		require.Error(t, err)
		require.Contains(t, out, "group_id is null")
	} else {
		s.exec("INSERT INTO orders VALUES (2, 'psql')")
		t.Log("there is no psql here")
	}
	list := pgtest.Column[string](s.DB, `SELECT convert_from(payload, 'UTF8') || coalesce(headers::text, '')
		FROM pgfifo.jobs WHERE queue = 'orders' ORDER BY id`)
	require.Equal(t, []string{
		`{"id": 1, "note": "lib/pq"}{"by": "INSERT"}`, `{"id": 2, "note": "psql"}{"by": "INSERT"}`,
	}, list)
	require.Equal(t, 1, s.number(`SELECT count(*) FROM pgfifo.jobs WHERE id = $1 AND run_at > now()
		AND payload = convert_to('a "text" \n', 'UTF8')`, text))
	require.Equal(t, 1, s.number("SELECT count(*) FROM pgfifo.jobs WHERE id = $1 AND payload = '\\x00ff'", raw))
}
