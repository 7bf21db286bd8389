-- The tables of the proof of concept: a row per group, whose lock is the group's turn, and jobs with a status.
CREATE SCHEMA naive;
CREATE TABLE naive.queue_groups (
    queue text NOT NULL,
    group_id text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, group_id)
);
CREATE TABLE naive.jobs (
    id bigserial PRIMARY KEY,
    queue text NOT NULL,
    group_id text NOT NULL,
    number bigint NOT NULL,
    status text NOT NULL DEFAULT 'queued',
    attempts integer NOT NULL DEFAULT 0,
    last_started_at timestamptz
);
CREATE INDEX ON naive.jobs (queue, group_id, id);
