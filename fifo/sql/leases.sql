-- Tells which of the queues in $1 have their groups held by sessions: Settings.SessionLease.
SELECT q.queue FROM pgfifo.queues q WHERE q.queue = ANY ($1::text[]) AND q.lease = 'session'
