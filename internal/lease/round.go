package lease

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/array"
)

// A round is one transaction of the session.
type round struct {
	*session
	groups  []release    // groups to be let go
	slots   []release    // slots to be let go
	limited []*ask       // claims that need a slot
	claims  []*ask       // claims that need no slot, and those that have got one
	locked  []groups.Key // that are claimed

	unreleased []release // what it could not let go
}

func newRound(s *session, asks []*ask) *round {
	r := &round{session: s}
	for _, a := range asks {
		a.hold, a.missed, a.slot, a.deferred, a.refused, a.heads, a.behind = nil, NoHead, 0, false, nil, nil, nil
		for _, one := range a.releases {
			if one.slot == 0 {
				r.groups = append(r.groups, one)
			} else {
				r.slots = append(r.slots, one)
			}
		}
		switch {
		case a.claim == nil:
		case a.claim.Slot:
			r.limited = append(r.limited, a)
		default:
			r.claims = append(r.claims, a)
		}
	}
	return r
}

// run makes the transaction. Only a round that needs slots waits for an answer in the middle of it.
func (r *round) run(ctx context.Context) (err error) {
	p := r.last.reuse(r.conn.PgConn().StartPipeline(ctx), r.stmts, false)
	defer func() { err = p.end(err) }()
	p.send(stmtBegin, nil, nil)
	r.sendReleases(p)
	if len(r.limited) > 0 {
		r.sendSlots(p)
		if err := p.sync(); err != nil {
			return err
		}
		r.admit()
	}
	r.sendClaims(p)
	p.send(stmtCommit, nil, nil)
	if err := p.sync(); err != nil {
		return err
	}
	for _, a := range r.claims {
		r.makeHold(a)
	}
	r.giveSlots()
	r.retryLater(r.unreleased)
	return nil
}

// sendReleases lets go of what is to be let go.
func (r *round) sendReleases(p *pipeline) {
	unreleased := func(some []release) func(*rowReader) {
		return nth(len(some), func(_ *rowReader, n int) { r.unreleased = append(r.unreleased, some[n]) })
	}
	if len(r.groups) > 0 {
		p.send(stmtKeepFree, [][]byte{
			array.Texts(r.groups, func(g release) string { return g.Queue }),
			array.Texts(r.groups, func(g release) string { return g.GroupID }),
			array.Ints(r.groups, func(g release) int64 { return g.token }),
			array.Ints(r.groups, func(g release) int64 { return g.next }),
			appendInt(r.number),
		}, unreleased(r.groups))
	}
	if len(r.slots) > 0 {
		p.send(stmtKeepSlotsFree, [][]byte{
			array.Texts(r.slots, func(s release) string { return s.Queue }),
			array.Ints(r.slots, func(s release) int64 { return int64(s.slot) }),
			appendInt(r.number),
		}, unreleased(r.slots))
	}
}

// sendSlots asks for the slots of limited queues, and gives those that are got to claims.
func (r *round) sendSlots(p *pipeline) {
	asked := make(map[string][]*ask)
	for _, a := range r.limited {
		asked[a.claim.Queue] = append(asked[a.claim.Queue], a)
	}
	for q, asks := range asked {
		args := [][]byte{[]byte(q), appendInt(int64(len(asks))), appendInt(r.number)}
		p.send(stmtKeepSlots, args, func(row *rowReader) {
			if slot := int32(row.uint32()); len(asks) > 0 {
				asks[0].slot, asks = slot, asks[1:]
			}
		})
	}
}

// admit adds the claims that have got a slot to those that are made. The others have met the limit.
func (r *round) admit() {
	for _, a := range r.limited {
		if a.slot == 0 {
			a.missed = OverLimit
			continue
		}
		r.claims = append(r.claims, a)
	}
}

// giveSlots says which slots the holds have. Those of claims that have missed are given back.
func (r *round) giveSlots() {
	for _, a := range r.claims {
		switch {
		case a.slot == 0:
		case a.hold != nil && a.hold.token != 0:
			a.hold.slot = a.slot
		default:
			r.unwanted = append(r.unwanted, release{Key: groups.Key{Queue: a.claim.Queue}, slot: a.slot})
		}
	}
}

// A wanted is one group of a claim.
type wanted struct {
	*ask
	Request
}

func (r *round) sendClaims(p *pipeline) {
	var list []wanted
	batches := 0 // groups that are claimed with several jobs
	for _, a := range r.claims {
		for _, one := range a.claim.all() {
			list = append(list, wanted{a, one})
			if one.Jobs > 1 {
				batches++
			}
		}
	}
	if len(list) == 0 {
		return
	}
	keys := [][]byte{
		array.Texts(list, func(w wanted) string { return w.Queue }),
		array.Texts(list, func(w wanted) string { return w.GroupID }),
	}
	floors := array.Ints(list, func(w wanted) int64 { return w.floor(r.dialed) })
	slotted := array.Of(list, func(to []byte, w wanted) []byte { return strconv.AppendBool(to, w.claim.Slot) })
	allowed := array.Of(list, func(to []byte, w wanted) []byte { return strconv.AppendBool(to, w.SuspectAllowed) })
	p.send(stmtKeepLock, keys, nth(len(list), func(_ *rowReader, n int) { r.locked = append(r.locked, list[n].Key) }))
	number, most := appendInt(r.number), appendInt(maxBatchBytes)
	heads := r.held(list, func(row *rowReader, a *ask, h Held) {
		h.scan(row, 0)
		h.Seen.Dialed = r.dialed
		h.More = row.bool()
		h.token, h.session = row.int64(), r.number
		a.heads = append(a.heads, h)
	})
	p.send(stmtKeepClaim, append(keys[:2:2], floors, most, number, slotted, allowed), heads)
	if batches > 0 {
		jobs := array.Ints(list, func(w wanted) int64 {
			if w.Jobs > 1 {
				return int64(w.Jobs)
			}
			return 0
		})
		each := appendInt(int64(maxBatchBytes / batches))
		behind := r.held(list, func(row *rowReader, a *ask, h Held) {
			h.scanJob(row)
			h.version = row.uint32()
			a.behind = append(a.behind, h)
		})
		p.send(stmtKeepBehind, append(keys[:2:2], jobs, each, number), behind)
	}
}

// cover makes sure that a round that the server has refused, and whose transaction has ended, leaves no evidence of a
// crash. Lanes would find it if the queue were given the other lease.
func (r *round) cover(ctx context.Context) error {
	if len(r.locked) == 0 {
		return nil
	}
	p := r.last.reuse(r.conn.PgConn().StartPipeline(ctx), r.stmts, false)
	p.send(stmtBegin, nil, nil)
	p.send(stmtKeepLock, [][]byte{
		array.Texts(r.locked, func(k groups.Key) string { return k.Queue }),
		array.Texts(r.locked, func(k groups.Key) string { return k.GroupID }),
	}, nil)
	p.send(stmtCommit, nil, nil)
	return p.exchange()
}

// held reads an answer about the list, each row with its element.
func (r *round) held(list []wanted, f func(row *rowReader, a *ask, h Held)) func(*rowReader) {
	return nth(len(list), func(row *rowReader, n int) {
		f(row, list[n].ask, Held{Key: list[n].Key, N: list[n].N})
	})
}

func (r *round) makeHold(a *ask) {
	if slices.ContainsFunc(a.heads, func(h Held) bool { return h.unclaimed(a.claim) }) {
		r.refuseClaim(a)
		return
	}
	a.deferred = len(a.heads) > 0 && !slices.ContainsFunc(a.heads, Held.sent)
	if a.deferred || len(a.heads) == 0 {
		return
	}
	a.hold = r.together(a.heads)
	if len(a.behind) > 0 && a.hold.token != 0 {
		a.hold.batch(a.behind)
	}
}

// refuseClaim gives back the groups of a claim, because the server has left the row of one as it was.
func (r *round) refuseClaim(a *ask) {
	a.refused = fmt.Errorf("lease: claim: %w", errUnchanged)
	for _, h := range a.heads {
		if h.token != 0 {
			r.unwanted = append(r.unwanted, release{Key: h.Key, token: h.token})
		}
	}
}

// together makes a hold of a claim's heads. What is not to run with the others is given back, to be claimed by itself.
func (r *round) together(heads []Held) *Hold {
	hold := company(heads, 0)
	for i := range heads {
		if h := &heads[i]; h.Seen.Alone {
			hold.Apart = append(hold.Apart, h.N)
			if h.token != 0 {
				r.unwanted = append(r.unwanted, release{Key: h.Key, token: h.token})
			}
		}
	}
	return hold
}
