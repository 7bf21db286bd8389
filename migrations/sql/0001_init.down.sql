DROP TABLE pgfifo.dead_letters;
DROP TABLE pgfifo.pauses;
DROP TABLE pgfifo.queue_groups;
DROP TABLE pgfifo.jobs;
DROP DOMAIN pgfifo.key;
DROP DOMAIN pgfifo.payload;
DROP DOMAIN pgfifo.count;
DROP FUNCTION pgfifo.schema_version();
