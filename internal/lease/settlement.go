package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A settlement is that of one job whose handler had no transaction. All that wait are made together: those of jobs that
// are done, and need nothing else, by one statement (sql/keep_done.sql); those of others, that have failed or were lost
// say, by the calls of each in one transaction. Neither kind waits for the other.
type settlement struct {
	head  *Held
	calls []Call // nil: it is done, and needs nothing else
	relax string // the statement with which its commit does not wait for the disk, or ""
	err   error
	ready chan struct{}
}

// errApart says that a settlement is to be made by itself: the server has refused something of those that were to be
// made together.
var errApart = errors.New("lease: the jobs cannot be settled together")

// A gathering makes settlements of one kind together, in one transaction after the other.
type gathering struct {
	lanes *Lanes // one, which no handler keeps, and which waits for nobody for long
	by    func(*pipeline, []*settlement) error
	slow  *slowSet // the Keeper's

	mu      sync.Mutex
	waiting []*settlement
	busy    bool // somebody makes what is waiting
}

// settle makes a settlement together with others. It returns ErrNotHeld if the job's group is not the claim's any more.
func (g *gathering) settle(s *settlement) error {
	s.ready = make(chan struct{})
	g.mu.Lock()
	g.waiting = append(g.waiting, s)
	first := !g.busy
	g.busy = true
	g.mu.Unlock()
	if first {
		go g.settleAll()
	}
	<-s.ready
	return s.err
}

// settleAll makes settlements until none waits.
func (g *gathering) settleAll() {
	for {
		g.mu.Lock()
		some := g.waiting[:min(len(g.waiting), tuning.Rows)]
		g.waiting = g.waiting[len(some):]
		g.busy = len(some) > 0
		g.mu.Unlock()
		if len(some) == 0 {
			return
		}
		err := g.onLane(some)
		for _, s := range some {
			if err != nil {
				s.err = err
			}
			close(s.ready)
		}
	}
}

// onLane makes settlements in one transaction of a lane's.
func (g *gathering) onLane(some []*settlement) error {
	ctx, cancel := context.WithTimeout(ownContext, g.lanes.dialer.Bounds.WithDefaults().Silence)
	defer cancel()
	lane, err := g.lanes.get(ctx)
	if err != nil {
		return errApart // nothing was sent
	}
	defer g.lanes.put(lane)
	begin := time.Now()
	p := lane.pipeline(ctx)
	beginSettlements(lane, p, some)
	err = g.by(p, some)
	if err == nil || Refused(err) {
		g.slow.tookTogether(some, time.Since(begin))
	}
	if err == nil {
		return nil
	}
	lane.rollback(ctx)
	if Refused(err) {
		return errApart
	}
	_ = lane.Close()
	return err
}

// completeAll completes jobs that are done.
func completeAll(p *pipeline, some []*settlement) error {
	c := settlementColumns(some)
	p.send(stmtKeepDone, [][]byte{c.queues, c.groups, c.tokens, c.jobs, c.sessions}, readHeld(some))
	p.send(stmtCommit, nil, nil)
	return p.exchange()
}

// callEach makes the calls. It makes none of a job whose group is not the claim's any more, so it waits for the answer
// to the locks.
func callEach(p *pipeline, some []*settlement) error {
	c := settlementColumns(some)
	p.send(stmtKeepTake, [][]byte{c.queues, c.groups, c.tokens, c.sessions}, readHeld(some))
	if err := p.sync(); err != nil {
		return p.end(err)
	}
	sendCalls(p, some)
	return p.exchange()
}

// beginSettlements begins a transaction that waits a second for what somebody has locked, and for a trigger of the
// user's, and whose commit does not wait for the disk if none of them needs that.
func beginSettlements(l *Lane, p *pipeline, some []*settlement) {
	l.begin(p)
	p.send(stmtBound, nil, nil)
	if !slices.ContainsFunc(some, func(s *settlement) bool { return s.relax == "" }) {
		p.send(some[0].relax, nil, nil)
	}
}

func settlementColumns(some []*settlement) headColumns {
	heads := make([]*Held, len(some))
	for i, s := range some {
		heads[i] = s.head
	}
	return columnsOf(heads)
}

// readHeld reads which groups are still the claims'. The others have ErrNotHeld.
func readHeld(some []*settlement) func(*rowReader) {
	for _, s := range some {
		s.err = ErrNotHeld
	}
	return nth(len(some), func(_ *rowReader, n int) { some[n].err = nil })
}

// sendCalls adds the calls of what is held, lets the groups go, and commits. The calls share what is left of a second.
func sendCalls(p *pipeline, some []*settlement) {
	var heads, lost []*Held
	var settled []int64
	for _, s := range some {
		if s.err != nil {
			continue
		}
		p.send(stmtBoundRest, nil, nil)
		for _, c := range s.calls {
			p.sendCall(c, &s.err)
		}
		heads, settled = append(heads, s.head), append(settled, jobOf(s.calls))
		if s.head.marked {
			lost = append(lost, s.head)
		}
	}
	if len(lost) > 0 {
		p.send(stmtUnmark, unmarkArgs(lost), nil)
	}
	if len(heads) > 0 {
		end := endCall(heads, settled)
		p.send(end.Statement, end.Args, nil)
	}
	p.send(stmtCommit, nil, nil)
}
