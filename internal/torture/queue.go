package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgfifo/pgfifo/fifo"
)

// The queues.
const (
	queuePlain = "plain"
	queueEach  = "each"
	queueSlice = "slice" // its handler is a BatchHandler
	queueWide  = "wide"
	// queueRelaxed is as queuePlain, and its completions do not wait for the disk.
	queueRelaxed = "relaxed"
	// queueLimited runs at most limit jobs at once.
	queueLimited = "limited"
	limit        = 4
	// queueSeveral runs up to severalOf jobs of a group at once. Their effects have no order, and no hash chain.
	queueSeveral = "several"
	severalOf    = 3
	// queueLoose is that of messages of no group. Number n counts as group looseFrom + n.
	queueLoose = "loose"
	looseFrom  = 1 << 21
	// queueStubborn is that of handlers that do not end. Its groups are numbered from stubbornFrom on.
	queueStubborn = "stubborn"
	stubbornFrom  = 1 << 20

	// With Settings.SessionLease, a session of the worker holds the groups without a transaction.
	queueKept        = "kept"
	queueKeptEach    = "kept-each"
	queueKeptWide    = "kept-wide"
	queueKeptLimited = "kept-limited"
	// queueMixed is given one lease and the other in turn. Workers have that of the time when they began.
	queueMixed = "mixed"
)

// A queue is what its settings are, and how it is worked: in batches of as many jobs or groups as Config.Batch says for
// each one.
type queue struct {
	settings fifo.Settings
	fifo.Queue
}

var queues = map[string]queue{
	queuePlain:       {Queue: fifo.Queue{Share: share, Weights: map[string]int{"1": 3}}},
	queueEach:        {Queue: fifo.Queue{BatchJobs: 1}},
	queueSlice:       {Queue: fifo.Queue{BatchJobs: 1}},
	queueWide:        {Queue: fifo.Queue{BatchGroups: 1}},
	queueRelaxed:     {Queue: fifo.Queue{Relaxed: true}},
	queueLimited:     {settings: fifo.Settings{Limit: limit}},
	queueSeveral:     {fifo.Settings{GroupLimit: severalOf}, fifo.Queue{BatchJobs: 1}}, // one at a time all the same
	queueLoose:       {Queue: fifo.Queue{BatchGroups: 1}},
	queueKept:        {settings: fifo.Settings{SessionLease: true}},
	queueKeptEach:    {fifo.Settings{SessionLease: true}, fifo.Queue{BatchJobs: 1}},
	queueKeptWide:    {fifo.Settings{SessionLease: true}, fifo.Queue{BatchGroups: 1}},
	queueKeptLimited: {settings: fifo.Settings{SessionLease: true, Limit: limit}},
	queueMixed:       {settings: fifo.Settings{SessionLease: true}},
	queueStubborn:    {},
}

// queueList is all of them, for SQL.
var queueList = "'" + strings.Join(slices.Sorted(maps.Keys(queues)), "', '") + "'"

// queueOf returns the queue of a group. A quarter of the groups is plain, and the groups that a Zipf distribution
// prefers are of every kind.
func queueOf(group int32) string {
	switch {
	case group >= looseFrom:
		return queueLoose
	case group >= stubbornFrom:
		return queueStubborn
	}
	return queueAt[group%int32(len(queueAt))]
}

// queueAt are the queues of groups, in turn. The first plainGroups of them are plain.
var queueAt = [...]string{
	queuePlain, queuePlain, queuePlain, queueEach, queueSeveral,
	queueLimited, queueSlice, queueKept, queueRelaxed, queueWide,
	queueKept, queueKeptWide, queueKeptLimited, queueEach, queueSeveral,
	queueLimited, queueKeptEach, queueMixed, queueRelaxed, queueWide,
}

const plainGroups = 3

// ofGroup reports whether a queue is worked in batches of several jobs of one group.
func ofGroup(name string) bool { return queues[name].BatchJobs > 0 && name != queueSeveral }

// acrossGroups reports whether it is worked in batches of one job each of several groups.
func acrossGroups(name string) bool { return queues[name].BatchGroups > 0 }

// mayKeep reports whether the groups of a queue may be a session's.
func mayKeep(name string) bool { return queues[name].settings.SessionLease }

// keeps reports whether they are, whoever works it.
func keeps(name string) bool { return mayKeep(name) && name != queueMixed }

// holder names what one attempt at most may hold at a time: a group, or a job where several of its group may run.
func holder(group int32, job int64) int64 {
	if queueOf(group) == queueSeveral {
		return -job
	}
	return int64(group)
}

// groupID returns the id of a group. One in four takes more bytes than letters.
func groupID(group int32) string {
	if group%4 == 2 {
		return fmt.Sprint("g", group, "-Zürich")
	}
	return fmt.Sprint("g", group)
}
