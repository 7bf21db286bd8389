package pgfifo_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

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
					current_setting,host,nextval}'::text[] LOOP
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
// (CVE-2018-1058), whatever a role does.
func TestForeignOverloads(t *testing.T) {
	s := newStaff(t, "")
	s.trap()
	for name, role := range map[string]func(*testing.T, *staff){
		"producer": producerRole, "worker": workerRole, "reader": readerRole, "admin": adminRole,
		"admin of jobs": adminOfJobs,
	} {
		t.Run(name, func(t *testing.T) {
			role(t, s.again(t))
			require.NotContains(t, s.logs.String(), "trapped")
		})
	}
}

// again returns the staff for the next of several tests that run one after the other, with nothing in the library's
// tables.
func (s *staff) again(t *testing.T) *staff {
	t.Helper()
	db := *s.DB
	db.T = t
	s.exec(`DO $$ BEGIN EXECUTE (SELECT 'TRUNCATE ' || string_agg(oid::regclass::text, ', ') || ' RESTART IDENTITY'
		FROM pg_class WHERE relnamespace = 'pgfifo'::regnamespace AND relkind = 'r'); END $$`)
	return &staff{&db, s.schema, s.roles, s.logs}
}

// trap makes the schema, puts it first in everybody's search_path, and migrates with that.
func (s *staff) trap() {
	s.Helper()
	ctx := s.Context()
	require.NoError(s, migrations.Down(ctx, s.Pool, nil))
	s.exec("CREATE SCHEMA trap")
	s.exec("GRANT USAGE, CREATE ON SCHEMA trap TO PUBLIC")
	foreigner := s.as(s.roles.Producer)
	_, err := foreigner.Exec(ctx, traps)
	require.NoError(s, err)
	for _, role := range s.all() {
		s.exec("ALTER ROLE " + ident(login(role)) + " SET search_path = trap, public")
	}

	owner := s.Pool.Config()
	owner.ConnConfig.RuntimeParams["search_path"] = "trap,public"
	migrator, err := pgxpool.NewWithConfig(ctx, owner)
	require.NoError(s, err)
	s.Cleanup(migrator.Close)
	for _, pool := range []*pgxpool.Pool{migrator, s.as(s.roles.Worker)} {
		_, err = pool.Exec(ctx, "SELECT unnest(ARRAY['a'])")
		require.ErrorContains(s, err, "trapped", "the trap is set")
	}
	require.NoError(s, migrations.Up(ctx, migrator, nil))
	require.NoError(s, migrations.Down(ctx, migrator, nil))
	require.NoError(s, migrations.Up(ctx, migrator, nil))
	require.NoError(s, migrations.Grant(ctx, migrator, s.roles, nil))
	for _, operand := range []string{"pgfifo.key", "pgfifo.count", "pgfifo.payload", "pgfifo.priority"} {
		_, err := foreigner.Exec(ctx,
			"CREATE FUNCTION trap.equal("+operand+", text) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
		requireRefused(s.T, err, "an operator for our types is nobody's to make")
	}
}
