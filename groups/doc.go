// Package groups names what programs need of message groups: their Key, and their row QueueGroup. All else is in
// package fifo, which most programs use alone.
//
// How groups are held, and why they stay in order, is the argument of package internal/lease; how they are found, and
// whose turn it is, that of internal/schedule, which makes the requests of lease. Between them and fifo go values: a
// request in, a claim out.
//
//	         fifo       messages, jobs, handlers, retries, dead letters, operators' verbs
//	        /    \
//	schedule ---> lease   one connection: lock, look, lend, keep alive, settle
//	which group is next
//	        \    /
//	        groups      keys, the row
package groups
