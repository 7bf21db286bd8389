package lease

import (
	"time"

	"github.com/pgfifo/pgfifo/internal/array"
)

// A patience says for how long a lane waits for whoever has locked what it needs, or is slow.
type patience int

const (
	waitForever patience = iota // as long as it takes
	waitToTake                  // a second for each row that it takes, and then as long as it takes
	waitBriefly                 // a second for each statement
	waitBarely                  // as waitBriefly, but only a twentieth of that for a lock
)

// The beginnings of transactions that wait for nobody for long: for a lock, or for a trigger of the user's.
var boundSQL = map[string]string{
	stmtBound: "SELECT pg_catalog.set_config('lock_timeout', '1s', true), " +
		"pg_catalog.set_config('statement_timeout', '1s', true)",
	// What is left of a second since the transaction began is for the next statement.
	stmtBoundRest: "SELECT pg_catalog.set_config('statement_timeout', GREATEST(1, 1000 - " +
		"1000 * EXTRACT(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.now()))::integer::text, true)",
	stmtBarely: "SELECT pg_catalog.set_config('lock_timeout', '50ms', true), " +
		"pg_catalog.set_config('statement_timeout', '1s', true)",
	stmtBoundBy:    "SELECT pg_catalog.set_config('statement_timeout', $1, true)",
	stmtWaitToTake: "SET LOCAL lock_timeout = '1s'",
	stmtWaitLong:   "SET LOCAL lock_timeout TO DEFAULT",
}

// boundBy is a call that bounds each statement after it.
func boundBy(d time.Duration) Call {
	return Call{Statement: stmtBoundBy, Args: [][]byte{[]byte(millis(d))}}
}

// boundOf has the statements that bound a transaction.
var boundOf = map[patience]string{waitToTake: stmtWaitToTake, waitBriefly: stmtBound, waitBarely: stmtBarely}

// tooLong reports whether a statement was ended because its patience was.
func tooLong(err error) bool {
	code := sqlState(err)
	return code == lockNotAvailable || code == statementCancelled
}

// sendTake adds the taking of what a session has claimed. Call taken with what has become of the pipeline: it returns
// the transaction, or ErrNotHeld if some of that is not the claim's any more.
func sendTake(p *pipeline, hold *Hold, wait patience) (taken func(error) (xid int64, err error)) {
	heads, behind := keptHeads(hold), keptBehind(hold)
	c := columnsOf(heads)
	if bound := boundOf[wait]; bound != "" {
		p.send(bound, nil, nil)
	}
	p.send(stmtKeepTake, [][]byte{c.queues, c.groups, c.tokens, c.sessions}, nil)
	got := 0
	jobs := [][]byte{c.queues, c.groups, c.jobs, c.tokens, c.sessions}
	p.send(stmtKeepTakeJobs, jobs, nth(len(heads), func(r *rowReader, n int) {
		heads[n].Place = r.place()
		heads[n].Seen.XID = r.int64()
		got++
	}))
	same := make([]bool, len(behind))
	if len(behind) > 0 {
		p.send(stmtKeepSame, sameArgs(behind), nth(len(behind), func(_ *rowReader, n int) { same[n] = true }))
	}
	if wait == waitToTake {
		p.send(stmtWaitLong, nil, nil)
	}
	return func(err error) (int64, error) {
		switch {
		case err != nil:
			return 0, err
		case got < len(heads):
			err = ErrNotHeld
		}
		for n, h := range behind { // a changed job loses its place: the call that settles it finds no row
			if !same[n] {
				h.Place = Place{}
			}
		}
		return heads[0].Seen.XID, err
	}
}

// headColumns are what statements are told of heads, as parameters: one array each, pairwise.
type headColumns struct{ queues, groups, tokens, sessions, jobs []byte }

func columnsOf(heads []*Held) headColumns {
	return headColumns{
		queues:   array.Texts(heads, func(h *Held) string { return h.Queue }),
		groups:   array.Texts(heads, func(h *Held) string { return h.GroupID }),
		tokens:   array.Ints(heads, func(h *Held) int64 { return h.token }),
		sessions: array.Ints(heads, func(h *Held) int64 { return h.session }),
		jobs:     array.Ints(heads, func(h *Held) int64 { return h.ID }),
	}
}

// keptHeads returns the heads of the groups that a session has and has not let go.
func keptHeads(hold *Hold) (heads []*Held) {
	for h := range hold.Heads() {
		if h.token != 0 {
			heads = append(heads, h)
		}
	}
	return heads
}

// keptBehind returns the jobs behind the head of a session's batch.
func keptBehind(hold *Hold) (behind []*Held) {
	for i := range hold.Rest {
		if h := &hold.Rest[i]; h.version != 0 {
			behind = append(behind, h)
		}
	}
	return behind
}

func sameArgs(behind []*Held) [][]byte {
	return [][]byte{
		[]byte(behind[0].Queue), []byte(behind[0].GroupID),
		array.Ints(behind, func(h *Held) int64 { return h.ID }),
		array.Of(behind, func(to []byte, h *Held) []byte { return h.Place.Element(to) }),
		array.Ints(behind, func(h *Held) int64 { return int64(h.version) }),
	}
}

// endCall lets the groups go with the transaction that has taken them. settled are the jobs that were settled in it, 0
// for one that may be as it was.
func endCall(heads []*Held, settled []int64) Call {
	c := columnsOf(heads)
	jobs := array.Of(settled, array.Int[int64])
	return Call{Statement: stmtKeepEnd, Args: [][]byte{c.queues, c.groups, c.tokens, jobs, c.sessions}}
}

// jobOf returns the job of the first call that has one, whatever other calls stand before it; or 0.
func jobOf(calls []Call) int64 {
	for _, c := range calls {
		if c.Job != 0 {
			return c.Job
		}
	}
	return 0
}
