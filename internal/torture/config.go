package torture

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// A Config says what to run and what to break. Zero fields mean the defaults; faults default to none.
type Config struct {
	// Jobs is how many messages the producers send, and a few more if the last faults need something to be under way.
	// Some are rolled back on purpose. Defaults to 1,000.
	Jobs int
	// Groups is the number of message groups. Defaults to 50.
	Groups int
	// Zipf is the exponent of the distribution of jobs over groups; 0: even. It must be more than 1 otherwise.
	Zipf float64
	// Processes is how many worker processes there are, each with Lanes lanes. Default to 3 and 4.
	Processes, Lanes int
	// Producers is how many producer processes there are. Defaults to 2.
	Producers int
	// Batch is the size of batches. Three groups in ten are in queues that are worked in batches. Defaults to 10;
	// 1: no batches at all.
	Batch int

	// Delayed is how many jobs, in groups of their own, wait all through the run and do not become due.
	Delayed int

	Kills       int // SIGKILL of a worker process
	Stops       int // SIGSTOP of a worker process for longer than every timeout, then SIGCONT
	Terminates  int // pg_terminate_backend of a session of a worker, or sometimes of a producer
	Restarts    int // immediate shutdown of the server, and its restart
	Crashes     int // kill -9 of one server process: the server ends all sessions and recovers
	Partitions  int // the link of two worker processes is taken down for longer than every timeout
	LostCommits int // the server commits and its answer is not passed on
	Resets      int // RST of all connections of two worker processes
	Latencies   int // a while with slow connections of two worker processes
	Sweeps      int // SIGSTOP of a worker process in the middle of a sweep, for as long
	Holds       int // handlers of a worker process that take longer than every timeout, and nothing is wrong
	Reads       int // handlers of a worker process that keep rows open for as long
	Vacuums     int // SIGKILL of all worker processes, and VACUUM (FREEZE) and CHECKPOINT before there are others
	Stubborns   int // handlers that do not heed their contexts, and never end
	Outages     int // spells in which all handlers of queuePlain say Unavailable
	Notices     int // spells in which the server's queue of notices is full
	Clashes     int // jobs that cannot be given up, because a dead letter with their key is there
	Operators   int // locks, deletions and purges of an operator that are rolled back

	// Only are the things that handlers do beside writing their effects, separated by commas. Defaults to all of them.
	Only string
	// Seed makes the plan and the jobs. Defaults to a random one.
	Seed uint64
	// For ends the run early: no more jobs are sent and no faults injected after that time. Defaults to no limit.
	For time.Duration
	// Dir is where the logs go, and stay. By default they are in a folder for temporary files, and stay only when a
	// promise was broken.
	Dir string
	// Logf is told of the progress, if it is not nil.
	Logf func(format string, args ...any)
}

// Profiles are Configs by name.
var Profiles = map[string]Config{
	"short": {
		Jobs: 3000, Groups: 60, Processes: 4, Lanes: 3, Producers: 2,
		Kills: 6, Stops: 1, Terminates: 6, Restarts: 1, Crashes: 1, Partitions: 1, LostCommits: 2, Resets: 2,
		Latencies: 1, Holds: 1,
		Reads: 1, Operators: 3, Clashes: 1, Vacuums: 1, Notices: 1, Stubborns: 1, Outages: 1, Delayed: 200,
	},
	"ci": {
		Jobs: 20_000, Groups: 500, Processes: 8, Lanes: 4, Producers: 2,
		Kills: 40, Stops: 6, Terminates: 20, Restarts: 2, Crashes: 1, Partitions: 2, LostCommits: 8, Resets: 4,
		Latencies: 1, Sweeps: 1, Holds: 2,
		Reads: 4, Operators: 12, Clashes: 2, Vacuums: 4, Notices: 2, Stubborns: 4, Outages: 2, Delayed: 5000,
	},
	"long": {
		Jobs: 1_000_000, Groups: 1000, Zipf: 1.1, Processes: 8, Lanes: 8, Producers: 4,
		Kills: 500, Stops: 100, Terminates: 2000, Restarts: 20, Crashes: 5, Partitions: 30, LostCommits: 200,
		Resets: 100, Latencies: 20, Sweeps: 10, Holds: 20,
		Reads: 50, Operators: 300, Clashes: 30, Vacuums: 50, Notices: 30, Stubborns: 100, Outages: 20, Delayed: 10_000,
	},
}

// Profile returns the Config of that name.
func Profile(name string) (Config, error) {
	cfg, ok := Profiles[name]
	if !ok {
		return Config{}, fmt.Errorf("torture: no profile %q among %v", name, slices.Sorted(maps.Keys(Profiles)))
	}
	return cfg, nil
}

func (c Config) withDefaults() Config {
	c.Jobs = orDefault(c.Jobs, 1000)
	c.Groups = orDefault(c.Groups, 50)
	c.Processes = orDefault(c.Processes, 3)
	c.Lanes = orDefault(c.Lanes, 4)
	c.Producers = orDefault(c.Producers, 2)
	c.Batch = orDefault(c.Batch, 10)
	c.Seed = orDefault(c.Seed, rand.Uint64()>>1)
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	return c
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// session has bounds as short as a loaded machine can bear, so that freezes and partitions can outlast them.
var session = groups.Session{Heartbeat: 200 * time.Millisecond, Silence: time.Second, ServerSilence: 4 * time.Second}

const (
	// unread is how long a handler has to keep rows open until its worker may take the session for lost, a little less
	// than the worker's bound; and they have to be more than readAhead, which is what heartbeats read ahead.
	unread    = int64(time.Second)
	readAhead = 1 << 20
)

const (
	// sweepEvery and groupIdle are so short that rows of groups come and go all the time.
	sweepEvery, groupIdle = 300 * time.Millisecond, time.Second
	// freeze is how long a process is stopped or cut off: longer than every timeout, of which the longest is that of
	// the server's keepalives, in whole seconds.
	freeze = 6500 * time.Millisecond
	// learn is how long a handler may take to hear that its session was ended, or that the server is silent: in a
	// statement TCP tells it, 2.25 s after the last sign of life (see Session).
	learn = 2250*time.Millisecond + 500*time.Millisecond
)

// Queues and what they are worked with.
const (
	queuePlain = "plain" // one job a transaction
	queueEach  = "each"  // HandleEach, several jobs of one group
	queueSlice = "slice" // HandleBatch, several jobs of one group
	queueWide  = "wide"  // HandleEach, one job each of several groups
	// queueRelaxed is as queuePlain, and its completions do not wait for the disk.
	queueRelaxed = "relaxed"
	// queueLimited runs at most limit jobs at once.
	queueLimited = "limited"
	limit        = 4
	// queueSeveral runs up to severalOf jobs of a group at once. Their effects have no order, and no hash chain.
	queueSeveral = "several"
	severalOf    = 3
	// queueLoose is that of messages of no group, one job each of several. Number n counts as group looseFrom + n.
	queueLoose = "loose"
	looseFrom  = 1 << 21
	// queueStubborn is that of handlers that do not end. Its groups are numbered from stubbornFrom on.
	queueStubborn = "stubborn"
	stubbornFrom  = 1 << 20
)

// queueOf returns the queue of a group. Four groups in ten are plain, and the groups that a Zipf distribution prefers
// are of every kind.
func queueOf(group int32, batches bool) string {
	switch {
	case group >= looseFrom:
		return queueLoose
	case group >= stubbornFrom:
		return queueStubborn
	}
	if !batches {
		return queuePlain
	}
	switch group % 10 {
	case 3:
		return queueEach
	case 4:
		return queueSeveral
	case 5:
		return queueLimited
	case 6:
		return queueSlice
	case 8:
		return queueRelaxed
	case 9:
		return queueWide
	default:
		return queuePlain
	}
}

// acrossGroups reports whether a queue is worked in batches of one job each of several groups.
func acrossGroups(queue string) bool { return queue == queueWide || queue == queueLoose }

// holder names what one attempt at most may hold at a time: a group, or a job where several of its group may run.
func holder(group int32, job int64, batches bool) int64 {
	if queueOf(group, batches) == queueSeveral {
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
