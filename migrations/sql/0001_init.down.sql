-- Jobs and dead letters go with their tables, so this fails while there are any, whichever tool runs it; the locks that
-- it takes keep others from coming in. Who means it empties the two tables before: Config.DropJobs does.
ALTER TABLE pgfifo.jobs ADD CONSTRAINT "empty it before it is dropped" CHECK (false);
ALTER TABLE pgfifo.dead_letters ADD CONSTRAINT "empty it before it is dropped" CHECK (false);

DROP FUNCTION pgfifo.enqueue(
    text, text, text, jsonb, interval, timestamptz, integer, boolean,
    text, boolean, boolean, integer);
DROP FUNCTION pgfifo.enqueue(
    text, text, jsonb, jsonb, interval, timestamptz, integer, boolean,
    text, boolean, boolean, integer);
DROP FUNCTION pgfifo.enqueue(
    text, text, bytea, jsonb, interval, timestamptz, integer, boolean,
    text, boolean, boolean, integer);
DROP FUNCTION pgfifo.replace_waiting(text, text, bytea, bytea, jsonb, timestamptz);
DROP FUNCTION pgfifo.block_group(text, text, bigint, text);
DROP FUNCTION pgfifo.take_from_session(text, text);
DROP FUNCTION pgfifo.held_by_sessions(text, text);
DROP VIEW pgfifo.keepers;
DROP FUNCTION pgfifo.lives(bigint);
DROP FUNCTION pgfifo.runs_here(text, text, xid);
DROP FUNCTION pgfifo.in_range(timestamptz);
DROP FUNCTION pgfifo.with_failure(jsonb, integer, integer, text, text, text, text);
DROP TABLE pgfifo.dead_letters;
DROP TABLE pgfifo.attempt_marks;
DROP TABLE pgfifo.fences;
DROP TABLE pgfifo.pauses;
DROP SEQUENCE pgfifo.walk_requests;
DROP TABLE pgfifo.queue_groups;
DROP TABLE pgfifo.jobs;
DROP TABLE pgfifo.dedup_ids;
DROP TABLE pgfifo.group_slots;
DROP TABLE pgfifo.slots;
DROP TABLE pgfifo.queues;
DROP DOMAIN pgfifo.key;
DROP DOMAIN pgfifo.payload;
DROP DOMAIN pgfifo.document;
DROP DOMAIN pgfifo.count;
DROP DOMAIN pgfifo.priority;
DROP FUNCTION pgfifo.schema_version();
DROP FUNCTION pgfifo.serves_from();
