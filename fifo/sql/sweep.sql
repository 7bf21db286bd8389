-- Begins a transaction of the sweep: answers whether no other worker sweeps this schema now.
--
-- $1 what to lock, $2 milliseconds. The sweep locks rows of groups, in several round trips, on a connection that is not
-- set up like a lane's. One that freezes in between, or is cut off, must not keep those groups for longer than a lane
-- would: the server ends its session after $2. Nothing is left of the setting when the transaction ends.
SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended($1::text, 0::bigint))
FROM pg_catalog.set_config('idle_in_transaction_session_timeout'::text, $2::text, true) AS s
