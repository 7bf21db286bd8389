package torture

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A book is a history in the making, in milliseconds.
type book struct {
	*history
	now int64
}

const ms = int64(time.Millisecond)

// newBook returns a history of two workers and a few jobs in which nothing is wrong.
func newBook() *book {
	b := &book{history: &history{
		procs:     []string{"w1", "w2", "w3", "w4"},
		serverLog: serverLog{logged: true},
	}, now: 1000}
	b.chains = make(map[int32]chain)
	for n := int64(1); n <= 4; n++ {
		b.send(n, n, 0, resOK)
	}
	b.send(5, 0, 0, resFailed).send(6, 6, 0, resOK).run(0, 1, 0, 1, "ok", "succeeded")
	b.run(1, 2, 0, 1, "error", "retried").run(0, 2, 0, 2, "ok", "succeeded").effect(0, 1, 1).effect(0, 2, 2)
	for _, id := range []int64{3, 4} { // with tokens
		b.starts(0, id, 0, 1).event(0, evTx, 0, id, 1, 70, "-")
		b.event(0, evFence, 0, id, 1, 100+id, "-").write(0, id, 1, 100+id, true)
		b.event(0, evWrite, 0, id, 1, 100+id, "accepted").comes(0, id, 0, 1, "ok", "succeeded")
	}
	return b.run(1, 6, 0, 1, "error on purpose", "buried").bury(0, 6, 1)
}

// send enqueues a message.
func (b *book) send(n, id int64, group int32, res result) *book {
	b.enqueues = append(b.enqueues, enqueue{
		n: n, id: id, group: group, result: res, invoke: b.now * ms,
		back: (b.now + 2) * ms, how: howPlain,
	})
	return b.later(5)
}

// event logs an event of a process.
func (b *book) event(proc int32, k kind, group int32, job int64, attempt int32, arg int64, word string) *book {
	b.events = append(b.events, event{
		at: b.now * ms, kind: k, proc: proc, group: group, job: job, attempt: attempt,
		arg: arg, word: word,
	})
	return b.later(1)
}

// starts begins an attempt. Message and job have the same number.
func (b *book) starts(proc int32, job int64, group, attempt int32) *book {
	return b.event(proc, evStart, group, job, attempt, job, "-")
}

// running is an attempt of w1 at job 10, with its transaction.
func (b *book) running() *book {
	return b.send(10, 10, 1, resOK).starts(0, 10, 1, 1).event(0, evTx, 1, 10, 1, 71, "-")
}

// ends is the end of an attempt.
func (b *book) ends(proc int32, job int64, group, attempt int32, word, outcome string) *book {
	return b.event(proc, evEnd, group, job, attempt, 0, word).event(proc, evSettled, group, job, attempt, 0, outcome)
}

// comes is ends, with the effect if it succeeded.
func (b *book) comes(proc int32, job int64, group, attempt int32, word, outcome string) *book {
	b.ends(proc, job, group, attempt, word, outcome)
	if outcome == "succeeded" {
		b.effect(group, job, attempt)
	}
	return b
}

// run is an attempt from its start to its end.
func (b *book) run(proc int32, job int64, group, attempt int32, word, outcome string) *book {
	b.starts(proc, job, group, attempt).event(proc, evTx, group, job, attempt, int64(70+proc), "-")
	return b.ends(proc, job, group, attempt, word, outcome)
}

// done is one that succeeds, with its effect.
func (b *book) done(proc int32, job int64, group, attempt int32) *book {
	return b.run(proc, job, group, attempt, "ok", "succeeded").effect(group, job, attempt)
}

// doneAs is done, of a job that is none of its own message.
func (b *book) doneAs(proc int32, job int64, group int32, msg int64) *book {
	b.run(proc, job, group, 1, "ok", "succeeded")
	b.events[len(b.events)-4].arg = msg
	b.effects = append(b.effects, effect{group: group, job: job, attempt: 1, msg: msg})
	return b
}

// exit is an attempt that ends its process.
func (b *book) exit(proc int32, job int64, group, attempt int32) *book {
	b.starts(proc, job, group, attempt).event(proc, evExit, group, job, attempt, 0, "-")
	return b.mark("dead", b.procs[proc], 0)
}

func (b *book) effect(group int32, job int64, attempt int32) *book {
	b.effects = append(b.effects, effect{group: group, job: job, attempt: attempt, msg: job})
	return b
}

func (b *book) bury(group int32, job int64, attempts int32) *book {
	b.dead = append(b.dead, deadLetter{
		id: job, msg: job, group: group, queue: queueOf(group),
		attempts: attempts, failures: attempts, do: doLetter,
	})
	return b
}

func (b *book) write(group int32, job int64, attempt int32, token int64, accepted bool) *book {
	b.writes = append(b.writes, sinkWrite{
		at: b.now * ms, group: group, job: job, attempt: attempt, token: token, accepted: accepted,
	})
	return b.later(1)
}

func (b *book) mark(what, proc string, pid int64) *book {
	b.marks = append(b.marks, mark{at: b.now * ms, what: what, proc: proc, pid: pid})
	return b.later(1)
}

func (b *book) noted(what, proc, note string) *book {
	b.mark(what, proc, 0)
	b.marks[len(b.marks)-1].note = note
	return b
}

// kill has w3 killed.
func (b *book) kill() *book {
	return b.mark(faultKill, "w3", 0).mark("dead", "w3", 0)
}

// restart has the server be down for a moment.
func (b *book) restart() *book {
	return b.mark(faultRestart, "", 0).mark("resumed", "", 0)
}

// later has some milliseconds pass.
func (b *book) later(ms int64) *book {
	b.now += ms
	return b
}

// seal puts effects into their places, and makes the chains.
func (b *book) seal() *history {
	slices.SortStableFunc(b.effects, func(x, y effect) int { return cmp.Compare(int64(x.group), int64(y.group)) })
	for i := range b.effects {
		e := &b.effects[i]
		c := b.chains[e.group]
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(c.hash, uint64(e.job)))
		e.place = c.length + 1
		b.chains[e.group] = chain{e.place, sum[:]}
	}
	return b.history
}

// brokenBy returns the invariants that the checkers find broken, each once.
func brokenBy(h *history) (names []string) {
	for _, v := range check(h).violations() {
		names = append(names, v.Invariant)
	}
	return names
}

func TestSoundHistory(t *testing.T) {
	t.Parallel()
	c := check(newBook().seal())
	require.Empty(t, c.breaches)
	for _, inv := range []string{"I1", "I2", "I3", "I3-fence", "I4", "I5", "I6", "I8", "I9"} {
		require.NotZero(t, c.checked[inv], inv)
	}
}

// A flaw makes a history that is sound but for one thing.
type flaw struct {
	breaks string // the invariant; "" for those that are sound: what is excused, and by how little
	do     func(b *book)
}

// judge shows that the checkers tell broken histories from sound ones.
func judge(t *testing.T, flaws map[string]flaw) {
	t.Helper()
	for name, x := range flaws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBook()
			x.do(b)
			h := b.seal()
			if x.breaks == "" {
				require.Empty(t, check(h).breaches)
				return
			}
			require.Equal(t, []string{x.breaks}, brokenBy(h), "%+v", check(h).breaches)
		})
	}
}
