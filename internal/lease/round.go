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
	groups  []release // groups to be let go
	slots   []release // slots to be let go
	limited []*ask    // claims that need a slot
	claims  []*ask    // claims that need no slot, and those that have got one
	batches int       // how many groups are claimed with several jobs

	retry      bool      // it asks again for what the session has not let go
	unreleased []release // what the session still has to let go when the round is over
	unwanted   []release // what it has claimed for nothing
}

func newRound(s *session, asks []*ask, retry bool) *round {
	r := &round{session: s, retry: retry}
	if retry {
		r.release(s.unreleased)
	} else {
		r.unreleased = slices.Clone(s.unreleased)
	}
	for _, a := range asks {
		a.hold, a.missed, a.slot, a.deferred, a.refused = nil, NoHead, 0, false, nil
		r.release(a.releases)
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

func (r *round) release(some []release) {
	for _, one := range some {
		if one.slot == 0 {
			r.groups = append(r.groups, one)
		} else {
			r.slots = append(r.slots, one)
		}
	}
}

// run makes the transaction. Only who needs slots waits for an answer in the middle of it.
func (r *round) run(ctx context.Context) (err error) {
	p := &pipeline{Pipeline: r.conn.PgConn().StartPipeline(ctx), stmts: r.stmts}
	defer func() {
		if closeErr := p.Close(); err == nil {
			err = closeErr
		}
	}()
	p.send(stmtBegin, nil, nil)
	queues := r.sendFirst(p)
	if len(queues) > 0 {
		if err := p.Sync(); err != nil {
			return err
		}
		if err := r.readFirst(p); err != nil {
			return err
		}
		if err := r.readSlots(p, queues); err != nil {
			return err
		}
	}
	list := r.sendClaims(p)
	p.send(stmtCommit, nil, nil)
	if err := p.Sync(); err != nil {
		return err
	}
	if len(queues) == 0 {
		if err := r.readFirst(p); err != nil {
			return err
		}
	}
	if err := r.readClaims(p, list); err != nil {
		return err
	}
	if _, err := readTag(p); err != nil { // COMMIT
		return err
	}
	r.giveSlots()
	r.session.unwanted = append(r.session.unwanted, r.unwanted...)
	r.retryLater(r.unreleased, r.retry)
	return nil
}

// sendFirst lets go of what is to be let go, and asks for the slots of limited queues, whose names it returns.
func (r *round) sendFirst(p *pipeline) (queues []string) {
	if len(r.groups) > 0 {
		p.send(stmtKeepFree, [][]byte{
			array.Texts(r.groups, func(g release) string { return g.Queue }),
			array.Texts(r.groups, func(g release) string { return g.GroupID }),
			array.Ints(r.groups, func(g release) int64 { return g.token }),
			array.Ints(r.groups, func(g release) int64 { return g.next }),
			appendInt(r.number),
		}, claimFormats)
	}
	if len(r.slots) > 0 {
		p.send(stmtKeepSlotsFree, [][]byte{
			array.Texts(r.slots, func(s release) string { return s.Queue }),
			array.Ints(r.slots, func(s release) int64 { return int64(s.slot) }),
			appendInt(r.number),
		}, claimFormats)
	}
	asked := make(map[string]int64)
	for _, a := range r.limited {
		if asked[a.claim.Queue]++; asked[a.claim.Queue] == 1 {
			queues = append(queues, a.claim.Queue)
		}
	}
	for _, q := range queues {
		args := [][]byte{[]byte(q), appendInt(asked[q]), appendInt(r.number)}
		p.send(stmtKeepSlots, args, claimFormats)
	}
	return queues
}

func (r *round) readFirst(p *pipeline) error {
	if _, err := readTag(p); err != nil { // BEGIN
		return err
	}
	for _, sent := range [][]release{r.groups, r.slots} {
		if len(sent) == 0 {
			continue
		}
		err := eachNth(p, len(sent), func(_ *rowReader, n int) { r.unreleased = append(r.unreleased, sent[n]) })
		if err != nil {
			return err
		}
	}
	return nil
}

// readSlots gives the slots that were got to claims. The others have met the limit.
func (r *round) readSlots(p *pipeline, queues []string) error {
	free := make(map[string][]int32)
	for _, q := range queues {
		err := eachRow(p, func(row *rowReader) { free[q] = append(free[q], int32(row.uint32())) })
		if err != nil {
			return err
		}
	}
	for _, a := range r.limited {
		slots := free[a.claim.Queue]
		if len(slots) == 0 {
			a.missed = OverLimit
			continue
		}
		a.slot, free[a.claim.Queue] = slots[0], slots[1:]
		r.claims = append(r.claims, a)
	}
	return readSync(p)
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

func (r *round) sendClaims(p *pipeline) (list []wanted) {
	for _, a := range r.claims {
		for _, one := range a.claim.all() {
			list = append(list, wanted{a, one})
			if one.Jobs > 1 {
				r.batches++
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	keys := [][]byte{
		array.Texts(list, func(w wanted) string { return w.Queue }),
		array.Texts(list, func(w wanted) string { return w.GroupID }),
	}
	floors := array.Ints(list, func(w wanted) int64 { return w.floor(r.dialed) })
	slotted := array.Of(list, func(to []byte, w wanted) []byte { return strconv.AppendBool(to, w.claim.Slot) })
	p.send(stmtKeepLock, keys, claimFormats)
	number, most := appendInt(r.number), appendInt(maxBatchBytes)
	p.send(stmtKeepClaim, append(keys[:2:2], floors, most, number, slotted), claimFormats)
	if r.batches > 0 {
		jobs := array.Ints(list, func(w wanted) int64 {
			if w.Jobs > 1 {
				return int64(w.Jobs)
			}
			return 0
		})
		each := appendInt(int64(maxBatchBytes / r.batches))
		p.send(stmtKeepBehind, append(keys[:2:2], jobs, each, number), claimFormats)
	}
	return list
}

// readClaims makes the holds.
func (r *round) readClaims(p *pipeline, list []wanted) error {
	if len(list) == 0 {
		return nil
	}
	if _, err := readTag(p); err != nil { // the locks
		return err
	}
	heads, behind := make(map[*ask][]Held), make(map[*ask][]Held)
	err := r.eachHeld(p, list, func(row *rowReader, a *ask, h Held) {
		h.More = row.bool()
		h.token = row.int64()
		heads[a] = append(heads[a], h)
	})
	if err == nil && r.batches > 0 {
		err = r.eachHeld(p, list, func(row *rowReader, a *ask, h Held) {
			h.version = row.uint32()
			behind[a] = append(behind[a], h)
		})
	}
	if err != nil {
		return err
	}
	for a, held := range heads {
		if slices.ContainsFunc(held, Held.unclaimed) {
			r.refuseClaim(a, held)
			continue
		}
		if a.deferred = !slices.ContainsFunc(held, Held.sent); a.deferred {
			continue
		}
		a.hold = r.together(held)
		if len(behind[a]) > 0 && a.hold.token != 0 {
			a.hold.batch(behind[a])
		}
	}
	return nil
}

// refuseClaim gives the groups of a claim back of which the server has left one as it was.
func (r *round) refuseClaim(a *ask, heads []Held) {
	a.refused = fmt.Errorf("lease: claim: %w", errUnchanged)
	for _, h := range heads {
		if h.token != 0 {
			r.unwanted = append(r.unwanted, release{Key: h.Key, token: h.token})
		}
	}
}

// eachHeld reads the jobs in an answer.
func (r *round) eachHeld(p *pipeline, list []wanted, f func(row *rowReader, a *ask, h Held)) error {
	return eachNth(p, len(list), func(row *rowReader, n int) {
		h := Held{Key: list[n].Key, N: list[n].N}
		h.scan(row, 0)
		h.Seen.Dialed = r.dialed
		f(row, list[n].ask, h)
	})
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
