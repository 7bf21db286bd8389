-- Rights for four group roles, exact to the column. Run in one transaction by the owner of the schema and its tables,
-- or a superuser, after each migration, and any number of times: it locks no table, and workers go on meanwhile.
--
-- It makes the roles that are missing (that needs CREATEROLE; otherwise have them made before), takes from them and
-- from PUBLIC whatever they have on the library's objects, and grants what follows. Logins are yours: make them
-- members.
--
-- Nobody needs a right to draw from the sequences: identity columns do it by themselves. So nobody but the owner can
-- move them, and a producer cannot choose a job's id, which is its place. A worker may read the last id
-- that was drawn for jobs.
DO $roles$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['pgfifo_producer', 'pgfifo_worker', 'pgfifo_reader', 'pgfifo_admin'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = role_name::pg_catalog.name) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- roles are the whole cluster's: somebody did the same for another database
            END;
        END IF;
    END LOOP;
END
$roles$;

REVOKE ALL ON SCHEMA pgfifo FROM PUBLIC, pgfifo_producer, pgfifo_worker, pgfifo_reader, pgfifo_admin;
REVOKE ALL ON TABLE pgfifo.queues, pgfifo.slots, pgfifo.group_slots, pgfifo.dedup_ids, pgfifo.jobs,
    pgfifo.queue_groups, pgfifo.keepers, pgfifo.pauses, pgfifo.fences, pgfifo.attempt_marks, pgfifo.dead_letters
    FROM PUBLIC, pgfifo_producer, pgfifo_worker, pgfifo_reader, pgfifo_admin;
REVOKE ALL ON SEQUENCE pgfifo.jobs_id_seq, pgfifo.fences_token_seq, pgfifo.walk_requests
    FROM PUBLIC, pgfifo_producer, pgfifo_worker, pgfifo_reader, pgfifo_admin;
-- PUBLIC may use any type by default. Without that nobody can make an operator on these, for our statements to find.
REVOKE ALL ON DOMAIN pgfifo.key, pgfifo.payload, pgfifo.document, pgfifo.count, pgfifo.priority
    FROM PUBLIC, pgfifo_producer, pgfifo_worker, pgfifo_reader, pgfifo_admin;
REVOKE ALL ON FUNCTION
    pgfifo.enqueue(text, text, bytea, jsonb, interval, timestamptz, integer, boolean, text, boolean, boolean, integer),
    pgfifo.enqueue(text, text, text, jsonb, interval, timestamptz, integer, boolean, text, boolean, boolean, integer),
    pgfifo.enqueue(text, text, jsonb, jsonb, interval, timestamptz, integer, boolean, text, boolean, boolean, integer),
    pgfifo.replace_waiting(text, text, bytea, bytea, jsonb, timestamptz), pgfifo.runs_here(text, text, xid),
    pgfifo.held_by_sessions(text, text), pgfifo.take_from_session(text, text),
    pgfifo.block_group(text, text, bigint, text)
    FROM PUBLIC, pgfifo_producer, pgfifo_worker, pgfifo_reader, pgfifo_admin;

GRANT USAGE ON SCHEMA pgfifo TO pgfifo_producer, pgfifo_worker, pgfifo_reader, pgfifo_admin;

-- All may see the settings of queues, and so check that theirs are the same. A worker may set those of a queue that has
-- none; only an admin may change them.
GRANT SELECT ON pgfifo.queues TO pgfifo_producer, pgfifo_worker, pgfifo_reader, pgfifo_admin;
GRANT INSERT ON pgfifo.queues TO pgfifo_worker, pgfifo_admin;
GRANT UPDATE (dedup_window, dedup_by_group, dead_letter_retention, max_running, group_limit, lease)
    ON pgfifo.queues TO pgfifo_admin;
GRANT SELECT, INSERT ON pgfifo.slots TO pgfifo_worker, pgfifo_admin;

-- Producer: adds jobs at the ends of groups, and learns their ids. It reads no payload, and locks, changes and deletes
-- no job. It finds deduplication ids as hashes, and has to write them.
GRANT INSERT (queue, group_id, payload, headers, run_at, max_attempts, priority), SELECT (id)
    ON pgfifo.jobs TO pgfifo_producer;
GRANT SELECT (key, job, expires, ungrouped), INSERT (key, expires, ungrouped), UPDATE (job, expires, ungrouped)
    ON pgfifo.dedup_ids TO pgfifo_producer, pgfifo_worker;

GRANT EXECUTE ON FUNCTION
    pgfifo.enqueue(text, text, bytea, jsonb, interval, timestamptz, integer, boolean, text, boolean, boolean, integer),
    pgfifo.enqueue(text, text, text, jsonb, interval, timestamptz, integer, boolean, text, boolean, boolean, integer),
    pgfifo.enqueue(text, text, jsonb, jsonb, interval, timestamptz, integer, boolean, text, boolean, boolean, integer)
    TO pgfifo_producer, pgfifo_worker; -- it runs with their rights
GRANT EXECUTE ON FUNCTION pgfifo.replace_waiting(text, text, bytea, bytea, jsonb, timestamptz)
    TO pgfifo_producer, pgfifo_worker; -- it runs with the owner's

-- Worker: claims, settles and buries jobs, enqueues from handlers, keeps house. It may pause, because a job may block
-- its group. It cannot change a job's place, resume, or read the payloads of dead letters. UPDATE of one
-- column is what PostgreSQL asks for a row lock; DELETE lets it lock the whole table, too, and there is no DELETE
-- without that.
GRANT SELECT, INSERT (queue, group_id, payload, headers, run_at, max_attempts, failures, priority),
      UPDATE (run_at, attempts, failures), DELETE
    ON pgfifo.jobs TO pgfifo_worker;
GRANT SELECT ON SEQUENCE pgfifo.jobs_id_seq, pgfifo.walk_requests TO pgfifo_worker;
GRANT DELETE ON pgfifo.dedup_ids TO pgfifo_worker;
GRANT SELECT, INSERT (queue, group_id), UPDATE (created_at, session, token, job, attempt, since), DELETE
    ON pgfifo.queue_groups TO pgfifo_worker;
GRANT SELECT (queue, group_id, job, limited), INSERT (queue, group_id, reason, job, by_hand, limited),
      UPDATE (job)
    ON pgfifo.pauses TO pgfifo_worker; -- to block groups, and to give a queue a limit
GRANT UPDATE (n, session) ON pgfifo.slots TO pgfifo_worker; -- to lock one, or to have one
GRANT SELECT, INSERT, UPDATE (n), DELETE ON pgfifo.group_slots TO pgfifo_worker;
GRANT SELECT, INSERT (queue, group_id), UPDATE (token), DELETE ON pgfifo.fences TO pgfifo_worker;
GRANT USAGE ON SEQUENCE pgfifo.fences_token_seq TO pgfifo_worker;
GRANT SELECT, INSERT (queue, group_id, id, attempt, xid), UPDATE (id, attempt, xid), DELETE
    ON pgfifo.attempt_marks TO pgfifo_worker;
GRANT INSERT (queue, group_id, id, payload, headers, attempts, max_attempts, enqueued_at, failures, priority),
      SELECT (queue, group_id, id, died_at), UPDATE (attempts), DELETE
    ON pgfifo.dead_letters TO pgfifo_worker; -- all but INSERT for Settings.DeadLetterRetention
-- They read and write nothing, so PUBLIC keeps the right to call them, which it has by default.
GRANT EXECUTE ON FUNCTION pgfifo.with_failure(jsonb, integer, integer, text, text, text, text), pgfifo.lives(bigint)
    TO pgfifo_worker, pgfifo_admin;
GRANT EXECUTE ON FUNCTION pgfifo.in_range(timestamptz) TO pgfifo_worker, pgfifo_reader, pgfifo_admin;
GRANT SELECT ON pgfifo.keepers TO pgfifo_worker, pgfifo_reader, pgfifo_admin; -- to see, and to end, who holds groups

-- Reader: looks, at payloads too. It sees since when a group is held, and from where, only with pg_read_all_stats:
-- grant pg_read_all_stats to it where you may.
GRANT SELECT ON pgfifo.jobs, pgfifo.pauses, pgfifo.slots, pgfifo.group_slots, pgfifo.queue_groups, pgfifo.dead_letters
    TO pgfifo_reader;

-- Admin: reads, configures, pauses, resumes, purges, redrives, deletes dead letters, which it locks before, retries,
-- edits, deletes, buries and moves jobs, and takes groups from sessions. It owns nothing, so it cannot migrate.
GRANT SELECT, INSERT (queue, group_id, id, payload, headers, run_at, max_attempts, enqueued_at, failures, priority),
      UPDATE (payload, headers, run_at, attempts), DELETE
    ON pgfifo.jobs TO pgfifo_admin;
GRANT SELECT, INSERT (queue, group_id, reason, limited), UPDATE (reason, job, by_hand), DELETE
    ON pgfifo.pauses TO pgfifo_admin;
GRANT USAGE ON SEQUENCE pgfifo.walk_requests TO pgfifo_admin;
GRANT SELECT, INSERT (queue, group_id, id, payload, headers, attempts, max_attempts, enqueued_at, failures, priority),
      UPDATE (attempts), DELETE
    ON pgfifo.dead_letters TO pgfifo_admin;
GRANT SELECT ON pgfifo.group_slots, pgfifo.queue_groups TO pgfifo_admin;
GRANT EXECUTE ON FUNCTION pgfifo.runs_here(text, text, xid), pgfifo.held_by_sessions(text, text),
    pgfifo.take_from_session(text, text) -- it runs with the owner's rights
    TO pgfifo_worker, pgfifo_admin;
GRANT EXECUTE ON FUNCTION pgfifo.block_group(text, text, bigint, text) TO pgfifo_worker; -- it runs with its rights
GRANT SELECT (queue, group_id, id), DELETE ON pgfifo.attempt_marks TO pgfifo_admin; -- a redrive
