package torture

// tablesSQL are the tables that handlers write to. No key keeps effects single or in order: only the queue does.
const tablesSQL = `
CREATE TABLE effects (
	grp integer NOT NULL, place bigint NOT NULL, job bigint NOT NULL, attempt integer NOT NULL, msg bigint NOT NULL);
CREATE TABLE chains (
	grp integer PRIMARY KEY, length bigint NOT NULL, h bytea NOT NULL) WITH (fillfactor = 50);
CREATE TABLE strays (
	grp integer NOT NULL, job bigint NOT NULL, attempt integer NOT NULL, how text NOT NULL);
CREATE TABLE slow_commits (job bigint NOT NULL);
CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON slow_commits DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION slow_commit();
`

// effectSQL adds a link to the group's hash chain, and the effect with its place in the chain. $1 group, $2 job,
// $3 attempt, $4 number of the message.
const effectSQL = `
WITH link AS (
	INSERT INTO chains AS c (grp, length, h) VALUES ($1::integer, 1, sha256(int8send($2::bigint)))
	ON CONFLICT (grp) DO UPDATE SET length = c.length + 1, h = sha256(c.h || int8send($2::bigint))
	RETURNING length
)
INSERT INTO effects (grp, place, job, attempt, msg) SELECT $1::integer, length, $2::bigint, $3::integer,
$4::bigint FROM link`

// slowCommitSQL has the COMMIT take a while. $1 job.
const slowCommitSQL = "INSERT INTO slow_commits (job) VALUES ($1::bigint)"

// straySQL is a write of a handler that has returned: in whatever transaction it were to be, it is never to be seen. $1
// group, $2 job, $3 attempt, $4 how.
const straySQL = "INSERT INTO strays (grp, job, attempt, how) VALUES ($1::integer, $2::bigint, $3::integer, $4::text)"
