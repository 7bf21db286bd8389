package pgfifo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

// traps puts what PostgreSQL prefers to its own functions and operators into a schema, wherever a statement does not
// name those exactly: because the types of the arguments are others, or because its own are polymorphic.
const traps = `
	DO $do$
	DECLARE
		types text[] := '{text,smallint,integer,bigint,numeric,double precision,interval,timestamptz,
			bytea,xid,xid8,jsonb,oid,regclass,name,tid,boolean}';
		l text; r text; result text; op text; f text;
		body text := $$ LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped by foreign code''; END'$$;
	BEGIN
		FOREACH l IN ARRAY types LOOP
			FOREACH f IN ARRAY '{unnest,array_agg,cardinality,count,ceil,length,pg_xact_status,pg_advisory_xact_lock,
					pg_try_advisory_xact_lock,hashtextextended,jsonb_strip_nulls,jsonb_array_length,
					current_setting,host}'::text[] LOOP
				EXECUTE format('CREATE FUNCTION trap.%I(%s) RETURNS %s', f, l,
					CASE f WHEN 'length' THEN 'integer' ELSE 'bigint' END) || body;
				EXECUTE format('CREATE FUNCTION trap.%I(%s[]) RETURNS SETOF %s', f, l, l) || body;
			END LOOP;
			FOREACH r IN ARRAY types LOOP
				FOREACH f IN ARRAY '{hashtextextended,pg_notify,pg_has_role,jsonb_strip_nulls,
						pg_advisory_xact_lock}'::text[] LOOP
					EXECUTE format('CREATE FUNCTION trap.%I(%s, %s) RETURNS bigint', f, l, r) || body;
				END LOOP;
				FOREACH op IN ARRAY '{=,<>,<,>,<=,>=,*,+,-,/,&,||}'::text[] LOOP
					result := CASE WHEN op ~ '[=<>]' THEN 'boolean' WHEN op = '||' THEN 'text'
						WHEN 'interval' IN (l, r) THEN 'interval' ELSE l END;
					f := format('op_%s', md5(op || l || r));
					EXECUTE format('CREATE FUNCTION trap.%I(%s, %s) RETURNS %s', f, l, r, result) || body;
					EXECUTE format('CREATE OPERATOR trap.%s (FUNCTION = trap.%I, LEFTARG = %s, RIGHTARG = %s)',
						op, f, l, r);
				END LOOP;
			END LOOP;
		END LOOP;
		EXECUTE 'CREATE FUNCTION trap.jsonb_build_object(text, integer, text, text, text, text, text, text, text, text,
			text, timestamptz) RETURNS jsonb' || body;
		EXECUTE 'CREATE FUNCTION trap.set_config(text, text, boolean) RETURNS text' || body;
		EXECUTE 'CREATE FUNCTION trap.statement_timestamp() RETURNS timestamptz' || body;
	END
	$do$`

// A foreigner may create things in a schema that is in everybody's search_path, as all may in public up to PostgreSQL
// 14 and in clusters that were upgraded from it. Its functions are not for the library's statements to find
// (CVE-2018-1058).
func TestForeignOverloads(t *testing.T) {
	t.Parallel()
	s := newStaff(t, "")
	require.NoError(t, migrations.Down(t.Context(), s.owner, nil))
	s.exec("CREATE SCHEMA trap")
	s.exec("GRANT USAGE, CREATE ON SCHEMA trap TO PUBLIC")
	foreigner := s.as(s.roles.Producer)
	ctx := t.Context()
	_, err := foreigner.Exec(ctx, traps)
	require.NoError(t, err)

	path := []string{"search_path", "trap,public"}
	owner := s.owner.Config()
	owner.ConnConfig.RuntimeParams[path[0]] = path[1]
	migrator, err := pgxpool.NewWithConfig(ctx, owner)
	require.NoError(t, err)
	t.Cleanup(migrator.Close)
	_, err = migrator.Exec(ctx, "SELECT unnest(ARRAY['a'])")
	require.ErrorContains(t, err, "trapped", "the trap is set")
	require.NoError(t, migrations.Up(ctx, migrator, nil))
	require.NoError(t, migrations.Down(ctx, migrator, nil))
	require.NoError(t, migrations.Up(ctx, migrator, nil))
	require.NoError(t, migrations.Grant(ctx, migrator, s.roles, nil))
	for _, operand := range []string{"pgfifo.key", "pgfifo.count", "pgfifo.payload", "pgfifo.priority"} {
		_, err := foreigner.Exec(ctx,
			"CREATE FUNCTION trap.equal("+operand+", text) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
		requireRefused(t, err, "an operator for our types is nobody's to make")
	}

	s.everything(path)
	require.NotContains(t, s.logs.String(), "trapped")
}

// everything has each role do its part, with settings of its own.
func (s *staff) everything(settings []string) {
	s.Helper()
	ctx := s.Context()
	producers := s.as(s.roles.Producer, settings...)
	for _, inOrder := range []bool{false, true} {
		c := s.client(producers, func(c *fifo.Config) { c.CommitOrder = inOrder })
		for _, p := range []string{"dead", "fence", "error", "die"} {
			m := fifo.Message{Queue: queue, GroupID: p, Payload: p, Delay: time.Millisecond}
			_, err := c.Enqueue(ctx, m)
			require.NoError(s, err)
			_, err = c.Enqueue(ctx, m, m)
			require.NoError(s, err)
			tx, err := c.DB().BeginTx(ctx, nil)
			require.NoError(s, err)
			_, err = c.EnqueueTx(ctx, tx, m)
			require.NoError(s, err)
			require.NoError(s, tx.Commit())
		}
		_, err := c.Enqueue(ctx, fifo.Message{Queue: "slice", GroupID: "g", DedupID: "a", Replace: true},
			fifo.Message{Queue: "slice", GroupID: "g", DedupID: fmt.Sprint(inOrder)})
		require.NoError(s, err)
		for i := range 20 {
			_, err := c.Enqueue(ctx, fifo.Message{Queue: "slice", GroupID: "g"},
				fifo.Message{Queue: "many", GroupID: fmt.Sprint(i)})
			require.NoError(s, err)
		}
	}
	admin := s.client(s.as(s.roles.Admin, settings...))
	require.NoError(s, admin.Queue("later").Configure(ctx, fifo.Settings{}))
	require.NoError(s, admin.Queue("later").Reconfigure(ctx, fifo.Settings{}, fifo.Settings{DedupByGroup: true}))
	later := admin.Queue("later").Group("g")
	require.NoError(s, pausing(later.Pause(ctx, "why")))
	pauses, err := admin.Pauses(ctx)
	require.NoError(s, err)
	require.Len(s, pauses, 1)
	resumed, err := later.Resume(ctx)
	require.NoError(s, err)
	require.True(s, resumed)

	w := &fifo.Worker{
		Client: s.client(s.as(s.roles.Worker, settings...)), Concurrency: 2, MaxAttempts: 2,
		PollInterval: 100 * time.Millisecond, Retry: fifo.Backoff(time.Millisecond, time.Millisecond),
		Heartbeat:     50 * time.Millisecond,
		SweepInterval: 50 * time.Millisecond, GroupIdle: time.Microsecond,
	}
	w.Handle(queue, func(ctx context.Context, job *fifo.Job) error {
		return s.act(ctx, w.Client, job)
	})
	w.HandleQueue("slice", fifo.Queue{
		BatchJobs: 5,
		BatchHandler: func(context.Context, []*fifo.Job) error {
			return nil
		},
	})
	w.HandleQueue("many", fifo.Queue{
		BatchGroups: 5,
		Handler:     func(context.Context, *fifo.Job) error { return nil },
	})
	left := "SELECT (SELECT count(*) FROM pgfifo.jobs) + (SELECT count(*) FROM pgfifo.queue_groups)"
	s.work(w, "everything to be done and swept", func() bool { return s.number(left) == 0 })
	require.EqualValues(s, 8, w.Stats().Lost, "%+v", w.Stats())

	reader := s.client(s.as(s.roles.Reader, settings...))
	dead, err := reader.Queue(queue).DeadLetters(ctx, fifo.Letters{})
	require.NoError(s, err)
	require.Len(s, dead, 8)
	depth, err := reader.Queue(queue).Measure(ctx)
	require.NoError(s, err)
	require.Equal(s, 8, depth.DeadLetters)
	group := admin.Queue(queue).Group(dead[0].GroupID)
	depth, err = group.Measure(ctx)
	require.NoError(s, err)
	require.Positive(s, depth.DeadLetters)
	for _, tail := range []bool{false, true} {
		c := s.client(s.as(s.roles.Admin, settings...), func(c *fifo.Config) { c.CommitOrder = tail })
		back, _, err := c.Queue(queue).Group(dead[0].GroupID).Redrive(ctx, fifo.Redrive{
			Letters: fifo.Letters{Kind: dead[0].Failures[0].Kind, Error: dead[0].Failures[0].Error, Limit: 1},
			ToTail:  tail,
		})
		require.NoError(s, err)
		require.Len(s, back, 1)
	}
	jobs, err := reader.Jobs(ctx, fifo.Page{})
	require.NoError(s, err)
	require.Len(s, jobs, 2)
	for _, scope := range []fifo.Scope{reader.Queue(queue), group} {
		jobs, err = scope.Jobs(ctx, fifo.Page{})
		require.NoError(s, err)
		require.Len(s, jobs, 2)
	}
	list, err := reader.Groups(ctx, fifo.Page{})
	require.NoError(s, err)
	require.Len(s, list, 1)
	n, err := group.Purge(ctx)
	require.NoError(s, err)
	require.Equal(s, 2, n)
	n, err = admin.Queue(queue).DeleteDeadLetters(ctx, one(dead[2].ID))
	require.NoError(s, err)
	require.Equal(s, 1, n)
	require.NoError(s, admin.Queue(queue).Configure(ctx, fifo.Settings{DeadLetterRetention: time.Microsecond}))
	s.work(w, "dead letters to expire", func() bool {
		return s.number("SELECT count(*) FROM pgfifo.dead_letters") == 0
	})
}
