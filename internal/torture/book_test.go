package torture

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
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
		procs: []string{"w1", "w2", "w3", "w4"}, batches: true,
		serverLog: serverLog{logged: true},
	}, now: 1000}
	b.chains = make(map[int32]chain)
	for n := int64(1); n <= 4; n++ {
		b.send(n, n, 0, resOK)
	}
	b.send(5, 0, 0, resFailed)
	b.send(6, 6, 0, resOK)
	b.run(0, 1, 0, 1, "ok", "succeeded")
	b.run(1, 2, 0, 1, "error", "retried")
	b.run(0, 2, 0, 2, "ok", "succeeded")
	b.effect(0, 1, 1)
	b.effect(0, 2, 2)
	for _, id := range []int64{3, 4} { // with tokens
		b.event(0, evStart, 0, id, 1, id, "-")
		b.event(0, evTx, 0, id, 1, 70, "-")
		b.event(0, evFence, 0, id, 1, 100+id, "-")
		b.write("w1", 0, id, 1, 100+id, true)
		b.event(0, evWrite, 0, id, 1, 100+id, "accepted")
		b.event(0, evEnd, 0, id, 1, 0, "ok")
		b.event(0, evSettled, 0, id, 1, 0, "succeeded")
		b.effect(0, id, 1)
	}
	b.run(1, 6, 0, 1, "error on purpose", "buried")
	b.bury(0, 6, 1)
	return b
}

// send enqueues a message.
func (b *book) send(n, id int64, group int32, res result) {
	b.enqueues = append(b.enqueues, enqueue{
		n: n, id: id, group: group, result: res, invoke: b.now * ms,
		back: (b.now + 2) * ms, how: howPlain,
	})
	b.now += 5
}

// event logs an event of a process.
func (b *book) event(proc int32, k kind, group int32, job int64, attempt int32, arg int64, word string) {
	b.events = append(b.events, event{
		at: b.now * ms, kind: k, proc: proc, group: group, job: job, attempt: attempt,
		arg: arg, word: word,
	})
	b.now++
}

// run is an attempt from its start to its end. Message and job have the same number.
func (b *book) run(proc int32, job int64, group, attempt int32, word, outcome string) {
	b.event(proc, evStart, group, job, attempt, job, "-")
	b.event(proc, evTx, group, job, attempt, int64(70+proc), "-")
	b.event(proc, evEnd, group, job, attempt, 0, word)
	b.event(proc, evSettled, group, job, attempt, 0, outcome)
}

// done is one that succeeds, with its effect.
func (b *book) done(proc int32, job int64, group, attempt int32) {
	b.run(proc, job, group, attempt, "ok", "succeeded")
	b.effect(group, job, attempt)
}

// exit is an attempt that ends its process.
func (b *book) exit(proc int32, job int64, group, attempt int32) {
	b.event(proc, evStart, group, job, attempt, job, "-")
	b.event(proc, evExit, group, job, attempt, 0, "-")
	b.mark("dead", b.procs[proc], 0)
}

func (b *book) effect(group int32, job int64, attempt int32) {
	b.effects = append(b.effects, effect{group: group, job: job, attempt: attempt, msg: job})
}

func (b *book) bury(group int32, job int64, attempts int32) {
	b.dead = append(b.dead, deadLetter{
		id: job, msg: job, group: group, queue: queueOf(group, true),
		attempts: attempts, failures: attempts, do: doLetter,
	})
}

func (b *book) write(proc string, group int32, job int64, attempt int32, token int64, accepted bool) {
	b.writes = append(b.writes, sinkWrite{
		at: b.now * ms, proc: proc, group: group, job: job, attempt: attempt,
		token: token, accepted: accepted,
	})
	b.now++
}

func (b *book) mark(what, proc string, pid int64) {
	b.marks = append(b.marks, mark{at: b.now * ms, what: what, proc: proc, pid: pid})
	b.now++
}

func (b *book) noted(what, proc, note string) {
	b.mark(what, proc, 0)
	b.marks[len(b.marks)-1].note = note
}

// kill has w3 killed.
func (b *book) kill() {
	b.mark(faultKill, "w3", 0)
	b.mark("dead", "w3", 0)
}

// restart has the server be down for a moment.
func (b *book) restart() {
	b.mark(faultRestart, "", 0)
	b.mark("resumed", "", 0)
}

// seal puts effects into their places, and makes the chains.
func (b *book) seal() *history {
	slices.SortStableFunc(b.effects, func(x, y effect) int { return compare(int64(x.group), int64(y.group)) })
	for i := range b.effects {
		e := &b.effects[i]
		c := b.chains[e.group]
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(c.hash, uint64(e.job)))
		e.place = c.length + 1
		b.chains[e.group] = chain{e.place, sum[:]}
	}
	return b.history
}
