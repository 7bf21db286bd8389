// Package tuning is the table of the library's tuning constants: the numbers that could be others and no promise would
// be lost. There are a dozen, so that one can have them in mind. What needs a number takes one of them, or says in an
// expression of one of them why it is not that itself. A test finds those that stand elsewhere.
//
// Limits of the interface (MaxPayloadBytes), defaults of settings and facts of PostgreSQL are no tuning. They stand
// where they are used.
package tuning

import "time"

// Times. Each is several times the one before.
const (
	// Gap is the least time between two notices, and before what will be there in a moment is looked for: about as much
	// as a round trip and a commit take. Less would find nothing new.
	Gap = time.Millisecond
	// Rest is the first rest before something is tried again, of which each is twice as long as the one before (package
	// rest). It is too short to be noticed, and much longer than a try takes.
	Rest = 10 * time.Millisecond
	// Look is how often busy lanes have it looked at what others do; those without work, twice as often. A killed
	// worker's groups are found by that, and it costs a hundredth of a core.
	Look = 50 * time.Millisecond
	// Slow is what a walk over all groups may take to be made often, what a cancel may take on its way, and how long a
	// group is left alone at first about which the server refuses something.
	Slow = 100 * time.Millisecond
	// Wait is how long somebody waits for what is nice to have: a connection for a mark, a polite close, a last notice.
	// It is also the longest rest while a job or a lane waits. A user notices what takes longer.
	Wait = time.Second
	// Grace is how long handlers have to return, and the server to answer what is asked beside them, and the longest
	// rest of those who wait for a server. Shutdown has room for one of it in Kubernetes' 30 seconds.
	Grace = 5 * time.Second
	// Long is what nobody waits for longer: a probe, a group in trouble, a reminder.
	Long = time.Minute
)

// Counts.
const (
	// Known is how many things of one kind memory holds at least: groups with a floor, groups that are due soon, slow
	// groups, refusals, open transactions. Some hundred bytes each, they are some megabytes.
	Known = 1 << 15
	// Rows is how many rows one statement reads, deletes or settles: it takes some milliseconds then, and its round trip
	// is little beside that.
	Rows = 512
	// Share is how much longer than it took the library leaves the server alone after what is not urgent: scans and the
	// sweep have a twentieth of the time.
	Share = 20
	// Few is how often something happens that may be chance: misses, groups that say that a queue is unavailable. Also
	// what is a few times as much: turns of a group in a row of full lines, rests of scans while lanes have enough to do.
	Few = 4
	// Many is how often something happens until the rest of it is as the others were: the first claims of a lane, lines
	// of a log in a second, turns by priority before one by age.
	Many = 10
)
