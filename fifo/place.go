package fifo

import (
	"maps"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schedule"
)

// A place is one group of a claim.
type place struct {
	turn    *schedule.Turn
	held    *lease.Held      // its head, or nil
	outcome schedule.Outcome // what the Turns should know
	alone   bool             // the next claim of it is to be of no other group
	upTo    int64            // claims up to this job are to be of one job each
	kept    bool             // the next claim is for it again, or it was given back already
}

// deal puts what is held into its places. It returns how many of them the claim has not missed.
func deal(claim []place, hold *lease.Hold) (n int) {
	for i := range claim {
		claim[i].outcome = schedule.Outcome{Missed: true}
	}
	if hold == nil {
		return 0
	}
	for h := range hold.Heads() {
		p := &claim[h.N]
		p.held, p.alone, p.outcome = h, h.Seen.Alone, schedule.Outcome{}
		n++
	}
	for _, i := range hold.Apart {
		p := &claim[i]
		p.alone, p.outcome = true, schedule.Outcome{More: true}
		n++
	}
	return n
}

// failed notes what a failed attempt makes of the group. more says that jobs wait behind that one.
func (p *place) failed(r *result, more bool) {
	o := &p.outcome
	o.More = more
	switch r.outcome {
	case Buried, Discarded:
		o.Finished = r.job.ID
	case Blocked:
		o.Paused, o.More = true, false
	default:
		o.DueIn, o.More, o.Unavailable = r.delay, true, r.unavailable()
	}
}

// learned returns what the Turns should know.
func (p *place) learned() schedule.Outcome {
	o := p.outcome
	o.NoCompany, o.OneByOne = p.alone, p.upTo
	if p.held != nil {
		o.Seen = p.held.Seen
		if o.Finished == 0 {
			o.Priority = p.held.Priority
		}
	}
	return o
}

// A task is a job that is held, with what it takes to settle it.
type task struct {
	job   *Job
	place *place
	held  *lease.Held
}

// copies returns copies of the Jobs, for hooks and handlers. They share the bytes of the payloads.
func copies(tasks []task) []*Job {
	jobs, list := make([]Job, len(tasks)), make([]*Job, len(tasks))
	for i := range tasks {
		jobs[i], list[i] = *tasks[i].job, &jobs[i]
		jobs[i].Headers = maps.Clone(jobs[i].Headers)
	}
	return list
}
