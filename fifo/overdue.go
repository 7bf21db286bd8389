package fifo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

const (
	overdueAfter = time.Second // after the end of its context; then after twice as long, and so on,
	overdueGap   = time.Minute // but at least once in so long
)

// errAbandoned is why a job has failed whose handler was left behind.
var errAbandoned = errors.New("fifo: the handler ignored the end of its context; it was abandoned")

// await waits for the handler of the given jobs to return its error. Of one that goes on after its context has ended
// it tells, again and again, until it is time to abandon it: then the connection is cut, and the handler left behind.
// gone is not nil then: ErrLost, or ErrNotHeld if the failure is to be recorded on another connection.
func (s *seat) await(ctx context.Context, tasks []task, result <-chan error) (err, gone error) {
	select {
	case err = <-result:
		return err, nil
	case <-ctx.Done():
	}
	c, ended, n := s.crew, time.Now(), int64(len(tasks))
	var abandon <-chan time.Time
	if after := s.queue.AbandonAfter; after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		abandon = timer.C
	}
	report := time.NewTimer(overdueAfter)
	defer report.Stop()
	told, returned := time.Duration(0), false
	for !returned && gone == nil {
		select {
		case err = <-result:
			returned = true
		case <-report.C:
			if told == 0 {
				c.worker.stats.overdue.Add(n)
				c.worker.stats.timesOverdue.Add(n)
			}
			told = time.Since(ended)
			s.tellOverdue(ctx, tasks, told)
			report.Reset(min(told, overdueGap))
		case <-abandon:
			gone = groups.ErrLost
			if errors.Is(context.Cause(ctx), ErrJobTimeout) {
				gone = groups.ErrNotHeld
			}
		case <-c.left.closing:
			gone = groups.ErrLost
		}
	}
	if told > 0 {
		c.worker.stats.overdue.Add(-n)
	}
	if gone == nil {
		return err, nil
	}
	s.lane.Abandon()
	for i := range tasks { // the handler goes on with the Jobs that it has
		job := s.newJob(tasks[i].held)
		job.hooked = tasks[i].job.hooked
		tasks[i].job = job
	}
	c.left.handler(tasks, result)
	late := time.Since(ended).Round(time.Millisecond)
	s.logLate("pgfifo: handler abandoned; its connection is closed", tasks, late, context.Cause(ctx))
	return fmt.Errorf("%w after %v", errAbandoned, late), gone
}

// tellOverdue tells the log and the hook.
func (s *seat) tellOverdue(ctx context.Context, tasks []task, late time.Duration) {
	cause, client := context.Cause(ctx), s.crew.worker.Client
	s.logLate("pgfifo: handler ignores the end of its context", tasks, late.Round(time.Millisecond), cause)
	for _, h := range client.cfg.Hooks {
		for i := 0; i < len(tasks) && h.Overdue != nil; i++ {
			job := s.newJob(tasks[i].held)
			client.guardLane("Overdue", func() { h.Overdue(context.WithoutCancel(ctx), job, late, cause) })
		}
	}
}

func (s *seat) logLate(what string, tasks []task, late time.Duration, cause error) {
	job := s.newJob(tasks[0].held)
	s.crew.log.Error(what, "queue", job.Queue, "group", job.GroupID, "job", job.ID, "attempt", job.Attempt(),
		"jobs", len(tasks), "late", late, "cause", cause)
}
