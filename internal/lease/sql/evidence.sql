-- Tells whether the worker that claimed a head before us died: whether its transaction ended without a commit.
--
-- $1 the transaction that had locked the head's row before, $2 the one that had locked the group's row: 32 bits,
-- widened here with the epoch of the next transaction id to be given out.
--
-- A claim locks both rows, the group's first. So that worker died if one aborted transaction has locked both. Or if two
-- have, the group's after the head's: then a claim behind it died, too, before it had the head. An operator who deletes
-- or locks a job locks one row only, so its rollback alone is no evidence.
--
-- A worker commits whatever it does with a job, also when it gives it back unworked; only a lost connection, a killed
-- backend or a server crash leaves an aborted transaction behind. NULL, for an id too old to be known, is no evidence,
-- nor is one that is not in the past (a MultiXact looks like either; nothing in the library makes one on jobs).
SELECT coalesce(pg_xact_status(w.job::text::xid8) = 'aborted' AND pg_xact_status(w.grp::text::xid8) = 'aborted',
                false) AS lost
FROM (SELECT n.next, n.next - ((n.next - $1::bigint) & 4294967295) AS job,
             n.next - ((n.next - $2::bigint) & 4294967295) AS grp
      FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) n) w
WHERE w.job >= 3 AND w.job <= w.grp AND w.grp < w.next
