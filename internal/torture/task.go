package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/pgfifo/pgfifo/fifo"
)

// A task is the payload of a job.
type task struct {
	N  int64  // the message's number
	Do string `json:",omitempty"` // what its handler does beside writing its effect
	To int32  `json:",omitempty"` // the group of the job that it spawns
	Tx string `json:",omitempty"` // when it asks for the transaction: txLate or txNever, or first of all
}

// children is what the number of a spawned job is higher by than that of its parent.
const children = 1 << 40

// What handlers do. Those that fail, and hurry, do so in their first attempt only.
const (
	doFence    = "fence"    // call the sink once
	doSlow     = "slow"     // call it, wait a little, or for as long as the harness says, and call it again
	doRows     = "rows"     // the same, with rows of pgx open meanwhile, or of bun
	doNap      = "nap"      // a statement that takes a while, and looks at its session
	doHurry    = "hurry"    // have a statement's own context time out in a savepoint, roll that back, and go on
	doLate     = "late"     // wait for as long as the harness says, and only then ask for a token and call the sink
	doError    = "error"    // return an error
	doPanic    = "panic"    // panic
	doLater    = "later"    // return fifo.RetryAfter
	doAway     = "away"     // return fifo.Unavailable, every other time
	doLetter   = "letter"   // return fifo.DeadLetter
	doSet      = "set"      // change a setting for the transaction, or forget all prepared statements, and go on
	doKeep     = "keep"     // keep something of the transaction, return an error, and write to it then
	doInFlight = "inflight" // return an error while a statement of the handler is under way
	doStubborn = "stubborn" // never end
	doSwallow  = "swallow"  // have a statement fail, and return nil
	doMend     = "mend"     // have one fail in a savepoint of its own, and roll that back
	doCommit   = "commit"   // have the COMMIT take a while
	doSpawn    = "spawn"    // enqueue a job to another group, in the job's transaction
	doKill     = "kill"     // kill the process
)

// lives is how many attempts a job has that kills its process.
const lives = 3

// mostLives is how many all others have: none uses them up.
const mostLives = 1000

// chances are how many jobs of a thousand do what. The rest only write their effect.
var chances = []struct {
	do     string
	chance int
}{
	{doFence, 100},
	{doSlow, 40},
	{doRows, 30},
	{doNap, 5},
	{doSet, 25},
	{doKeep, 15},
	{doInFlight, 2},
	{doHurry, 5},
	{doLate, 40},
	{doError, 20},
	{doPanic, 5},
	{doLater, 5},
	{doAway, 5},
	{doLetter, 3},
	{doSwallow, 5},
	{doMend, 5},
	{doSpawn, 20},
	{doCommit, 10},
}

// newTask returns the task of a message. As many of all as poisons says kill their process.
func newTask(rng *rand.Rand, n int64, o order) task {
	t := task{N: n}
	if rng.IntN(o.Jobs) < poisons(o.Jobs) && !o.Soak {
		t.Do = doKill
	} else {
		t.Do = pickDo(rng)
	}
	if !o.does(t.Do) {
		t.Do = ""
	}
	if t.Do == doSpawn {
		t.To = o.group(rng.Int32N(int32(o.Groups)))
	}
	return t
}

func pickDo(rng *rand.Rand) string {
	left := rng.IntN(1000)
	for _, c := range chances {
		if left < c.chance {
			return c.do
		}
		left -= c.chance
	}
	return ""
}

// poisons is how many jobs kill their process, roughly: each does it three times.
func poisons(jobs int) int { return min(jobs/1500, 60) }

// message returns a message with the task.
func (t task) message(group int32) fifo.Message {
	queue := queueOf(group)
	t.Tx = t.asks(queue)
	m := fifo.Message{Queue: queue, Payload: t}
	if m.Queue == queueLoose {
		m.Ungrouped = true
	} else {
		m.GroupID = groupID(group)
	}
	if t.kills() {
		m.MaxAttempts = lives
	}
	return m
}

// kills reports whether it kills its process.
func (t task) kills() bool { return t.Do == doKill }

// readTask returns the task of a payload.
func readTask(payload []byte) (t task, err error) {
	err = json.Unmarshal(payload, &t)
	return t, err
}

// groupFor returns the group of a job with that task.
func groupFor(queue, id string, t task) (int32, error) {
	if queue == queueLoose {
		return looseFrom + int32(t.N), nil
	}
	return groupOf(id)
}

// groupOf returns the group with that id.
func groupOf(id string) (int32, error) {
	if len(id) < 2 || id[0] != 'g' {
		return 0, fmt.Errorf("group id %q", id)
	}
	number, _, _ := strings.Cut(id[1:], "-")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), err
}
