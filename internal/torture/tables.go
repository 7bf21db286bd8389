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
` + completedSQL

// completedSQL makes the effects of jobs whose handlers have no transaction, with their completion. What an operator
// deletes is not completed. He would wait for handlers of one group of a batch then, and the batch for what he deletes
// of another: a deadlock.
const completedSQL = `
CREATE FUNCTION completed() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
DECLARE
	task jsonb := convert_from(OLD.payload, 'UTF8');
BEGIN
	IF task ->> 'Tx' = 'never' THEN
		WITH link AS (
			INSERT INTO chains AS c (grp, length, h)
			VALUES (substring(OLD.group_id FROM '^g([0-9]+)')::integer, 1, sha256(int8send(OLD.id)))
			ON CONFLICT (grp) DO UPDATE SET length = c.length + 1, h = sha256(c.h || int8send(OLD.id))
			RETURNING grp, length
		)
		INSERT INTO effects (grp, place, job, attempt, msg)
		SELECT grp, length, OLD.id, OLD.attempts + 1, (task ->> 'N')::bigint FROM link;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER completed AFTER DELETE ON pgfifo.jobs FOR EACH ROW
	WHEN ((OLD.queue LIKE 'kept%' OR OLD.queue = 'mixed')
		AND current_setting('application_name') <> '` + harness + `') EXECUTE FUNCTION completed();
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

// severalSQL adds the effect of a job where several of its group may run: they are not to wait for each other.
const severalSQL = `INSERT INTO effects (grp, place, job, attempt, msg)
VALUES ($1::integer, 0, $2::bigint, $3::integer, $4::bigint)`

// markSQL returns the transaction that has marked an attempt of such a job as begun, before its handler began: marks
// are in the order of these. -1: none has. $1 job, $2 attempt.
const markSQL = `SELECT coalesce((SELECT xmin::text::bigint FROM pgfifo.attempt_marks
WHERE queue = 'several' AND id = $1::bigint AND attempt = $2::integer AND xid = pg_current_xact_id()), -1)`

// slowCommitSQL has the COMMIT take a while. $1 job.
const slowCommitSQL = "INSERT INTO slow_commits (job) VALUES ($1::bigint)"

// straySQL is a write of a handler that has returned: in whatever transaction it were to be, it is never to be seen. $1
// group, $2 job, $3 attempt, $4 how.
const straySQL = "INSERT INTO strays (grp, job, attempt, how) VALUES ($1::integer, $2::bigint, $3::integer, $4::text)"
