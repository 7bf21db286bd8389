package pgfifo_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// requireRefused requires that PostgreSQL refused something for want of a right.
func requireRefused(t *testing.T, err error, what string) {
	t.Helper()
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr, "%s", what)
	require.Equal(t, "42501", pgErr.Code, "%s: %v", what, err)
}

// What none of the roles may do.
var refusedToAll = []string{
	"CREATE TABLE pgfifo.mine ()",
	"ALTER TABLE pgfifo.jobs ADD COLUMN mine integer",
	"ALTER TABLE pgfifo.jobs DISABLE TRIGGER ALL",
	"ALTER TABLE pgfifo.jobs OWNER TO CURRENT_USER",
	"ALTER TABLE pgfifo.jobs ENABLE ROW LEVEL SECURITY",
	"ALTER SEQUENCE pgfifo.jobs_id_seq RESTART",
	"CREATE INDEX ON pgfifo.jobs (run_at)",
	"CREATE RULE mine AS ON INSERT TO pgfifo.jobs DO NOTHING",
	"CREATE TRIGGER mine BEFORE INSERT ON pgfifo.jobs FOR EACH ROW " +
		"EXECUTE FUNCTION suppress_redundant_updates_trigger()",
	"CREATE POLICY mine ON pgfifo.jobs",
	"CREATE OR REPLACE FUNCTION pgfifo.schema_version() RETURNS integer LANGUAGE sql AS 'SELECT 7'",
	"CREATE OR REPLACE FUNCTION pgfifo.serves_from() RETURNS integer LANGUAGE sql AS 'SELECT 0'",
	"CREATE FUNCTION pg_temp.mine(pgfifo.key) RETURNS integer LANGUAGE sql AS 'SELECT 7'",
	"DROP TABLE pgfifo.fences",
	"DROP SCHEMA pgfifo CASCADE",
	"TRUNCATE pgfifo.jobs",
	"TRUNCATE pgfifo.dead_letters",
	"SELECT nextval('pgfifo.jobs_id_seq')",
	"SELECT setval('pgfifo.jobs_id_seq', 1)",
	"SELECT last_value FROM pgfifo.fences_token_seq",
	"SELECT setval('pgfifo.fences_token_seq', 1)",
	"SELECT setval('pgfifo.walk_requests', 1)",
	"UPDATE pgfifo.jobs SET queue = 'other'",
	"UPDATE pgfifo.jobs SET group_id = 'other'",
	"UPDATE pgfifo.jobs SET id = id + 1000",
	"UPDATE pgfifo.jobs SET enqueued_at = now()",
	"UPDATE pgfifo.jobs SET max_attempts = 1",
	"UPDATE pgfifo.jobs SET priority = 1",
	"INSERT INTO pgfifo.jobs (queue, group_id, payload, attempts) VALUES ('q', 'g', '', 9)",
	"UPDATE pgfifo.dead_letters SET payload = ''",
	"UPDATE pgfifo.dead_letters SET died_at = now()",
	"UPDATE pgfifo.queue_groups SET group_id = 'other'",
	"UPDATE pgfifo.pauses SET queue = 'other'",
	"UPDATE pgfifo.queues SET queue = 'other'",
	"DELETE FROM pgfifo.queues",
	"UPDATE pgfifo.dedup_ids SET key = sha256('other')",
	"TRUNCATE pgfifo.dedup_ids",
	"UPDATE pgfifo.slots SET queue = 'other'",
	"DELETE FROM pgfifo.slots",
	"UPDATE pgfifo.group_slots SET group_id = 'other'",
}

// What nobody may do but the workers.
var workersOnly = []string{
	"SELECT last_value FROM pgfifo.jobs_id_seq",
	"SELECT last_value FROM pgfifo.walk_requests",
	"SELECT FROM pgfifo.queue_groups FOR NO KEY UPDATE",
	"SELECT FROM pgfifo.slots FOR NO KEY UPDATE",
	"SELECT FROM pgfifo.group_slots FOR NO KEY UPDATE",
	"INSERT INTO pgfifo.group_slots VALUES ('q', 'g', 1)",
	"DELETE FROM pgfifo.group_slots",
	"INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'g')",
	"DELETE FROM pgfifo.queue_groups",
	"LOCK TABLE pgfifo.queue_groups IN ROW SHARE MODE",
	"SELECT token FROM pgfifo.fences",
	"SELECT nextval('pgfifo.fences_token_seq')", // and it alone tells a claim from another
	"UPDATE pgfifo.queue_groups SET session = NULL",
	"UPDATE pgfifo.queue_groups SET token = 7",
	"UPDATE pgfifo.slots SET session = 7",
	"INSERT INTO pgfifo.fences (queue, group_id) VALUES ('q', 'g')",
	"DELETE FROM pgfifo.fences",
	"UPDATE pgfifo.jobs SET failures = NULL",
	"DELETE FROM pgfifo.dedup_ids",
	"LOCK TABLE pgfifo.dedup_ids IN ROW SHARE MODE",
}

// What is refused to producers and readers both, of what workers or admins may do.
var changes = []string{
	"SELECT FROM pgfifo.jobs FOR UPDATE",
	"SELECT FROM pgfifo.jobs FOR NO KEY UPDATE SKIP LOCKED",
	"SELECT FROM pgfifo.jobs FOR SHARE",
	"SELECT FROM pgfifo.jobs FOR KEY SHARE",
	"UPDATE pgfifo.jobs SET run_at = now()",
	"DELETE FROM pgfifo.jobs",
	"LOCK TABLE pgfifo.jobs IN ROW SHARE MODE",
	"LOCK TABLE pgfifo.jobs IN ACCESS EXCLUSIVE MODE",
	"INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ('q', 'g', 1000007, '')",
	"UPDATE pgfifo.jobs SET attempts = 9",
	"UPDATE pgfifo.jobs SET payload = ''",
	"UPDATE pgfifo.jobs SET headers = NULL",
	"INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at) " +
		"VALUES ('q', 'g', 1, '', 1, now())",
	"INSERT INTO pgfifo.pauses (queue) VALUES ('other')",
	"UPDATE pgfifo.pauses SET reason = 'mine'",
	"DELETE FROM pgfifo.pauses",
	"SELECT nextval('pgfifo.walk_requests')",
	"INSERT INTO pgfifo.queues VALUES ('other', 1, true)",
	"UPDATE pgfifo.queues SET dedup_window = 1",
	"INSERT INTO pgfifo.slots VALUES ('other', 1)",
	"DELETE FROM pgfifo.dead_letters",
	"SELECT FROM pgfifo.dead_letters FOR KEY SHARE",
	"LOCK TABLE pgfifo.dead_letters IN ROW SHARE MODE",
}

var refusedToProducer = slices.Concat(workersOnly, changes, []string{
	"SELECT * FROM pgfifo.jobs",
	"SELECT payload FROM pgfifo.jobs",
	"SELECT queue, group_id FROM pgfifo.jobs",
	"SELECT failures FROM pgfifo.jobs",
	"SELECT xmax FROM pgfifo.jobs",
	"SELECT id FROM pgfifo.jobs WHERE payload > 'a'",
	"SELECT id FROM pgfifo.jobs ORDER BY enqueued_at",
	"COPY pgfifo.jobs TO STDOUT",
	"LOCK TABLE pgfifo.jobs IN ACCESS SHARE MODE",
	"INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'g', '') RETURNING payload",
	"INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'g', '') " +
		"ON CONFLICT (queue, group_id, id) DO NOTHING",
	"INSERT INTO pgfifo.jobs (queue, group_id, payload, enqueued_at) VALUES ('q', 'g', '', now())",
	"INSERT INTO pgfifo.jobs (queue, group_id, payload, failures) VALUES ('q', 'g', '', '[]')",
	"SELECT FROM pgfifo.dead_letters",
	"SELECT FROM pgfifo.queue_groups",
	"SELECT FROM pgfifo.keepers",
	"SELECT FROM pgfifo.pauses",
	"SELECT FROM pgfifo.group_slots",
	"SELECT FROM pgfifo.fences",
	"INSERT INTO pgfifo.dedup_ids (key, job, expires) VALUES (sha256('mine'), 1, now())",
	takeFromSession, heldBySessions,
})

var refusedToWorker = []string{
	"UPDATE pgfifo.jobs SET payload = ''",
	"UPDATE pgfifo.jobs SET headers = NULL",
	"INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ('q', 'g', 1000007, '')",
	"INSERT INTO pgfifo.jobs (queue, group_id, payload, enqueued_at) VALUES ('q', 'g', '', now())",
	"SELECT * FROM pgfifo.dead_letters",
	"SELECT payload FROM pgfifo.dead_letters",
	"SELECT failures FROM pgfifo.dead_letters",
	"DELETE FROM pgfifo.dead_letters RETURNING payload",
	"COPY pgfifo.dead_letters TO STDOUT",
	"INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at, died_at) " +
		"VALUES ('q', 'g', 1, '', 1, now(), now())",
	"SELECT nextval('pgfifo.walk_requests')",
	"SELECT reason FROM pgfifo.pauses",
	"UPDATE pgfifo.pauses SET reason = 'mine'",
	"DELETE FROM pgfifo.pauses",
	"LOCK TABLE pgfifo.pauses IN ACCESS SHARE MODE",
	"UPDATE pgfifo.queues SET dedup_window = 1",
	"SELECT FROM pgfifo.queues FOR KEY SHARE",
	"INSERT INTO pgfifo.queue_groups (queue, group_id, created_at) VALUES ('q', 'g', now())",
	"INSERT INTO pgfifo.fences (queue, group_id, token) OVERRIDING SYSTEM VALUE VALUES ('q', 'g', 7)",
	"UPDATE pgfifo.fences SET group_id = 'other'",
	"UPDATE pgfifo.queues SET lease = 'session'",
}

var refusedToReader = slices.Concat(workersOnly, changes, []string{
	"INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'g', '')",
	"SELECT FROM pgfifo.fences",
	"SELECT FROM pgfifo.dedup_ids",
	"INSERT INTO pgfifo.dedup_ids (key, expires) VALUES (sha256('mine'), now())",
	"LOCK TABLE pgfifo.pauses IN ROW SHARE MODE",
	"SELECT FROM pgfifo.pauses FOR KEY SHARE",
	replaceWaiting, takeFromSession, heldBySessions,
})

const (
	takeFromSession = "SELECT pgfifo.take_from_session('q', 'a')"
	heldBySessions  = "SELECT pgfifo.held_by_sessions('q', 'a')"
)

const replaceWaiting = "SELECT pgfifo.replace_waiting('q', 'a', sha256('mine'), '', '{}', now())"

var refusedToAdmin = slices.Concat(workersOnly, []string{
	"INSERT INTO pgfifo.pauses (queue, paused_at) VALUES ('other', now())",
	"SELECT FROM pgfifo.fences",
	"SELECT FROM pgfifo.dedup_ids",
	replaceWaiting,
})

// What the roles' rights let them do to others because PostgreSQL has no finer ones: SECURITY.md tells of each.
var permitted = map[string][]string{
	"producer": {
		"SELECT count(*), min(id), max(id) FROM pgfifo.jobs",
		"SELECT * FROM pgfifo.queues",
		"SELECT key, job, expires FROM pgfifo.dedup_ids FOR UPDATE",
		"UPDATE pgfifo.dedup_ids SET job = 1, expires = 'infinity'",
		replaceWaiting,
		"SELECT pg_notify('pgfifo', 'anything')",
		"LISTEN pgfifo",
	},
	"worker": {
		"SELECT FROM pgfifo.jobs FOR UPDATE",
		"LOCK TABLE pgfifo.jobs IN ACCESS EXCLUSIVE MODE",
		"DELETE FROM pgfifo.jobs",
		"DELETE FROM pgfifo.dead_letters",
		"UPDATE pgfifo.jobs SET run_at = 'infinity'",
		"INSERT INTO pgfifo.jobs (queue, group_id, payload, failures) VALUES ('q', 'g', '', '[]')",
		"INSERT INTO pgfifo.pauses (queue) VALUES ('other')",
		"INSERT INTO pgfifo.queues VALUES ('other', 1, true)",
		"SELECT FROM pgfifo.slots FOR NO KEY UPDATE SKIP LOCKED",
		"UPDATE pgfifo.queue_groups SET session = NULL, token = 7",
		"SELECT nextval('pgfifo.fences_token_seq')",
		takeFromSession, heldBySessions,
		"INSERT INTO pgfifo.group_slots VALUES ('q', 'g', 1)",
		"SELECT FROM pgfifo.group_slots FOR NO KEY UPDATE SKIP LOCKED",
		"DELETE FROM pgfifo.group_slots",
	},
	"reader": {
		"SELECT payload FROM pgfifo.jobs",
		"SELECT session, job, since FROM pgfifo.queue_groups",
		"SELECT FROM pgfifo.keepers",
		"LOCK TABLE pgfifo.jobs IN ACCESS SHARE MODE",
	},
	"admin": {
		"SELECT FROM pgfifo.jobs FOR UPDATE",
		"LOCK TABLE pgfifo.jobs IN ACCESS EXCLUSIVE MODE",
		"UPDATE pgfifo.jobs SET run_at = 'infinity'",
		"INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ('q', 'g', 1000007, '')",
		"SELECT FROM pgfifo.dead_letters FOR UPDATE",
		"SELECT nextval('pgfifo.walk_requests')",
		"UPDATE pgfifo.jobs SET payload = ''",
		takeFromSession, heldBySessions,
	},
	outsider: {
		"SELECT pg_notify('pgfifo', 'anything')",
		"LISTEN pgfifo",
	},
}

// try runs a statement and undoes it.
func (s *staff) try(pool *pgxpool.Pool, sql string) error {
	s.Helper()
	tx, err := pool.Begin(s.Context())
	require.NoError(s, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(s.Context(), s.sql(sql))
	return err
}

// Each statement is refused to the role for want of a right, and for nothing else: the owner may run it.
func TestRefused(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *staff) {
		s.stock()
		s.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'a')")
		s.exec("INSERT INTO pgfifo.fences (queue, group_id) VALUES ('q', 'a')")
		for role, own := range map[string][]string{
			s.roles.Producer: refusedToProducer, s.roles.Worker: refusedToWorker,
			s.roles.Reader: refusedToReader, s.roles.Admin: refusedToAdmin,
			outsider: slices.Concat(refusedToProducer, []string{
				"SELECT id FROM pgfifo.jobs", "SELECT pgfifo.schema_version()", replaceWaiting,
				"INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'g', '')",
			}),
		} {
			pool := s.as(role)
			for _, sql := range slices.Concat(refusedToAll, own) {
				requireRefused(t, s.try(pool, sql), role+": "+sql)
			}
		}
		for _, sql := range slices.Concat(refusedToAll, refusedToProducer, refusedToWorker,
			refusedToReader, refusedToAdmin) {
			require.NoError(t, s.try(s.Pool, sql), sql)
		}
		for role, list := range map[string][]string{
			s.roles.Producer: permitted["producer"], s.roles.Worker: permitted["worker"],
			s.roles.Reader: permitted["reader"], s.roles.Admin: permitted["admin"], outsider: permitted[outsider],
		} {
			pool := s.as(role)
			for _, sql := range list {
				require.NoError(t, s.try(pool, sql), "%s: %s", role, sql)
			}
		}
	})
}
