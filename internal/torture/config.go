package torture

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
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

	// Faults is how many of each kind are injected, by Kind.Flag.
	Faults map[string]int

	// Soak has the processes look at what they leave behind when they stop, how many prepared statements their sessions
	// have, and how much memory they take. No handler ends its process, or goes on for ever.
	Soak bool

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
	Logf func(format string, args ...any) `json:"-"`
}

// Profiles are Configs by name.
var Profiles = map[string]Config{
	"short": {
		Jobs: 3000, Groups: 60, Processes: 4, Lanes: 3, Producers: 2, Delayed: 200,
		Faults: map[string]int{
			"kills": 6, "stops": 1, "terminates": 6, "severs": 3, "leases": 2,
			"restarts": 1, "crashes": 1, "partitions": 1, "lost-commits": 2,
			"resets": 2, "latency": 1, "holds": 1, "reads": 1, "operators": 3, "clashes": 1, "vacuums": 1,
			"notices": 1, "stubborn": 1, "outages": 1,
		},
	},
	"ci": {
		Jobs: 12_000, Groups: 300, Processes: 8, Lanes: 4, Producers: 2, Delayed: 3000,
		Faults: map[string]int{
			"kills": 24, "stops": 4, "terminates": 12, "severs": 7, "leases": 4,
			"restarts": 2, "crashes": 1, "partitions": 2, "lost-commits": 5,
			"resets": 3, "latency": 1, "sweeps": 1, "holds": 2, "reads": 3, "operators": 8, "clashes": 2, "vacuums": 3,
			"notices": 2, "stubborn": 3, "outages": 2,
		},
	},
	"long": {
		Jobs: 1_000_000, Groups: 1000, Zipf: 1.1, Processes: 8, Lanes: 8, Producers: 4, Delayed: 10_000,
		Faults: map[string]int{
			"kills": 500, "stops": 100, "terminates": 2000, "severs": 500, "leases": 50,
			"restarts": 20, "crashes": 5, "partitions": 30,
			"lost-commits": 200, "resets": 100, "latency": 20, "sweeps": 10, "holds": 20, "reads": 50, "operators": 300,
			"clashes": 30, "vacuums": 50, "notices": 30, "stubborn": 100, "outages": 20,
		},
	},
	"soak": {
		Jobs: 100_000, Groups: 200, Processes: 2, Lanes: 8, Producers: 4, Soak: true,
		Faults: map[string]int{
			"terminates": 600, "severs": 100, "leases": 20, "operators": 200, "stubborn": 100, "bounces": 100,
		},
	},
}

// Profile returns the Config of that name.
func Profile(name string) (Config, error) {
	cfg, ok := Profiles[name]
	if !ok {
		return Config{}, fmt.Errorf("torture: no profile %q among %v", name, slices.Sorted(maps.Keys(Profiles)))
	}
	cfg.Faults = maps.Clone(cfg.Faults)
	return cfg, nil
}

func (c Config) withDefaults() Config {
	c.Jobs = cmp.Or(c.Jobs, 1000)
	c.Groups = cmp.Or(c.Groups, 50)
	c.Processes = cmp.Or(c.Processes, 3)
	c.Lanes = cmp.Or(c.Lanes, 4)
	c.Producers = cmp.Or(c.Producers, 2)
	c.Batch = cmp.Or(c.Batch, 10)
	c.Seed = cmp.Or(c.Seed, rand.Uint64()>>1)
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	return c
}

// does reports whether handlers may do that.
func (c *Config) does(do string) bool {
	return c.Only == "" || slices.Contains(strings.Split(c.Only, ","), do)
}

// group returns the nth group of the run: without batches they are all of queuePlain.
func (c *Config) group(n int32) int32 {
	if c.Batch > 1 {
		return n
	}
	return n/plainGroups*int32(len(queueAt)) + n%plainGroups
}

// A worker's bounds are as short as a loaded machine can bear, so that freezes and partitions can outlast them.
const heartbeat, silence, serverSilence = 200 * time.Millisecond, time.Second, 4 * time.Second

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
	// statement TCP tells it, 2.25 s after the last sign of life (Worker.Silence).
	learn = 2250*time.Millisecond + 500*time.Millisecond
)
