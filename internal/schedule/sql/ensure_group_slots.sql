-- Makes the slots that groups lack, in queues of which several jobs of a group may run at once. Groups that look as if
-- they were made for one Ungrouped message each have no more slots than jobs: there may be many of them.
--
-- $1 queues, $2 group ids, pairwise. What ensure.sql says holds here: it ends at once, and waits for no job.
INSERT INTO pgfifo.group_slots (queue, group_id, n)
SELECT k.queue, k.group_id, s.n
FROM set_config('synchronous_commit', 'off', true), unnest($1::text[], $2::text[]) AS k (queue, group_id)
CROSS JOIN LATERAL (SELECT CASE WHEN k.group_id !~ '^~[0-9A-V]{24}$' THEN q.group_limit
                                ELSE (SELECT pg_catalog.count(*)
                                      FROM (SELECT
                                            FROM pgfifo.jobs j
                                            WHERE j.queue = k.queue AND j.group_id = k.group_id
                                            LIMIT q.group_limit) j)
                           END AS most
                    FROM pgfifo.queues q WHERE q.queue = k.queue) q
CROSS JOIN LATERAL generate_series(1, q.most) AS s (n)
WHERE (SELECT pg_catalog.count(*) FROM pgfifo.group_slots g
       WHERE g.queue = k.queue AND g.group_id = k.group_id AND g.n <= q.most) < q.most
ORDER BY 1, 2, 3
ON CONFLICT DO NOTHING
