DROP TABLE pgfifo.dead_letters;
DROP TABLE pgfifo.pauses;
DROP TABLE pgfifo.queue_groups;
DROP TABLE pgfifo.jobs;
DROP FUNCTION pgfifo.schema_version();
