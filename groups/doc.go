// Package groups names what programs need of message groups: their Key, their row QueueGroup, and the bounds of a
// worker's Session. All else is in package fifo, which most programs use alone.
//
// How groups are held, and why they stay in order, is the argument of package internal/lease; how they are found, and
// whose turn it is, that of internal/schedule. Between them and fifo go values: a request in, a claim out.
//
//	         fifo       messages, jobs, handlers, retries, dead letters, operators' verbs
//	        /    \
//	schedule      lease   one connection: lock, look, lend, keep alive, settle
//	which group is next
//	        \    /
//	        groups      keys, the row, the bounds
//
// # What bounds silence
//
// A lane makes these settings on its own session (Session; any role may), and this is what they give:
//
//	what happens to the worker                    its group is free after        by
//	killed, or its connection closed              milliseconds                   the end of the session
//	killed in the middle of a statement           1 s                            client_connection_check_interval
//	frozen (SIGSTOP, a suspended machine)         ServerSilence, 30 s            idle_in_transaction_session_timeout
//	the same in the middle of a statement         the end of the statement, and  the same
//	                                              ServerSilence
//	cut off, or its machine gone                  5/6 of ServerSilence, 25 s     tcp_keepalives_*; if the server is on
//	                                                                             Linux 2/3, 20 s, by tcp_user_timeout
//	cut off with a reply on its way               2/3 of ServerSilence, 20 s     tcp_user_timeout
//
//	what the handler learns, by its context           after at most
//	its session was ended or the server restarted     Heartbeat, 1 s; at once in a statement
//	the server is silent                              Heartbeat + Silence, 11 s; by TCP, in a statement, 11.3 s
//
// In a statement, nothing but the socket watches: if that stays in order while no answer comes (a frozen server
// process, a pooler or proxy that lost the other side), the handler waits in its statement for as long as its own
// context lets it.
//
// Session.Validate sees to it that the second table is shorter than the first wherever both ends live: a handler is
// told before anybody else is given its group. It cannot be when the session is ended from the server's side, or when
// the worker itself is frozen. What a handler writes through the job's transaction is safe in any case: it cannot
// commit any more.
//
// For effects outside the database in those cases, the handler asks for a fencing token (Job.Fence) and sends it along;
// the other system refuses a lower one than it has seen. Tokens of a group grow with each claim that asks. They are
// drawn by a statement of its own, on another connection, so that they are durable before they are used; it looks
// whether the claim's transaction is still open when it has the lock of the group's row in pgfifo.fences, and a later
// claim cannot draw before that lock is free. So a former holder gets a lower token than its successor, or none.
//
// Behind a proxy or pooler the TCP settings watch the connection to the proxy. client_connection_check_interval needs
// a server on Linux, macOS, illumos or a BSD. What a handler does with its connection meanwhile, Session says.
package groups
