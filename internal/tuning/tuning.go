// Package tuning is the table of the library's tuning constants: the numbers that trade one cost for another. There are
// a dozen, so that one can have them in mind. What needs a number takes one of them, or says in an expression of one of
// them why it is not that itself. A test finds constants that stand elsewhere. Some docs tell what comes of a number:
// search them before you change one.
//
// Limits of the interface (MaxPayloadBytes), defaults of settings and facts of PostgreSQL are no tuning. They stand
// where they are used.
package tuning

import "time"

// Times.
const (
	// Gap is the least time between two notices, and between two tries of what may be there in a moment: about as long
	// as a round trip and a commit. More often there would be nothing new.
	Gap = time.Millisecond
	// Rest is the first rest before something is tried again, of which most are twice as long as the one before
	// (package rest). Nobody notices it, and it is much longer than a try. It is also the wait for what is there in a
	// moment.
	Rest = 10 * time.Millisecond
	// Look is the time between two looks at what other workers do, while all lanes are busy; it is half of that while
	// one waits. Such looks find the groups of a killed worker. A notice rests no longer than that either, and a claim
	// waits no longer for hooks, or for a look at a batch.
	Look = 50 * time.Millisecond
	// Slow is what a walk over all groups takes that is called slow. It is also the first rest of a group about which
	// the server refuses something, that of a lane whose statement was canceled, for the server may be slow to hear of
	// that, and the least Silence of a worker.
	Slow = 100 * time.Millisecond
	// Wait is how long something waits for what is nice to have: a connection for a mark, a polite close, a last
	// notice. It is also the longest rest of what a job waits for, and how long nothing is looked at when there is
	// nothing to do. A user notices what takes longer.
	Wait = time.Second
	// Grace is how long handlers have to return, and the server to answer what is asked beside them. It is also the
	// longest rest of who waits for a server, or for a partner. Kubernetes' 30 seconds have room for a few such times.
	Grace = 5 * time.Second
	// Long is how long a probe keeps the next one waiting, and the longest time between two reminders, or two tries of
	// a group that is in trouble: somebody has to mend that, and looks at his logs by the minute.
	Long = time.Minute
)

// Counts.
const (
	// Known is how many things of one kind memory knows: groups with a floor, groups that are due soon, slow groups,
	// refusals, open transactions; and half as many groups are in a queue's line. At some hundred bytes each they are a
	// few megabytes.
	Known = 1 << 15
	// Rows is how many rows a statement reads, deletes or settles. It takes some milliseconds: its round trip is little
	// beside that, and nobody waits long for it.
	Rows = 512
	// What is not urgent rests Spare times as long as it took, scans and the sweep above all. So the lanes have the
	// rest of the server.
	Spare = 20
	// Few is how often something may happen by chance, misses say; after that it tells something. Also how many times
	// as long as it took a scan rests while lanes have enough to do, and how often a group has its turn before others
	// are looked for.
	Few = 4
	// Many is a count beyond which more of the same tells nothing new: failures that are logged in a second, the
	// first claims of a lane; and which turn is by age where the others are by priority.
	Many = 10
)
