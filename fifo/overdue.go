package fifo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

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
	report := time.NewTimer(tuning.Wait) // then after twice as long, and so on
	defer report.Stop()
	told, returned, heard := time.Duration(0), false, make(chan struct{}, 1)
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
			late, jobs := told, copies(tasks)
			go func() { // a hook that takes its time must not keep the handler from being abandoned
				tellOverdue(ctx, c.worker.Client, jobs, late)
				heard <- struct{}{}
			}()
		case <-heard:
			report.Reset(min(told, tuning.Long))
		case <-abandon:
			gone = lease.ErrLost
			if errors.Is(context.Cause(ctx), ErrJobTimeout) {
				gone = lease.ErrNotHeld
			}
		case <-c.left.closing:
			gone = lease.ErrLost
		}
	}
	if told > 0 {
		c.worker.stats.overdue.Add(-n)
	}
	if gone == nil {
		return err, nil
	}
	s.holder.Abandon()
	c.left.handler(tasks, result)
	late := time.Since(ended).Round(time.Millisecond)
	logLate(c.log, "pgfifo: handler abandoned; its connection is closed", tasks[0].job, n, late, context.Cause(ctx))
	return fmt.Errorf("%w after %v", ErrAbandoned, late), gone
}

// tellOverdue tells the log and the hooks.
func tellOverdue(ctx context.Context, client *Client, jobs []*Job, late time.Duration) {
	cause := context.Cause(ctx)
	logLate(client.cfg.Logger, "pgfifo: handler ignores the end of its context", jobs[0], int64(len(jobs)),
		late.Round(time.Millisecond), cause)
	for _, h := range client.cfg.Hooks {
		for i := 0; i < len(jobs) && h.Overdue != nil; i++ {
			client.guardLane("Overdue", func() { h.Overdue(context.WithoutCancel(ctx), jobs[i], late, cause) })
		}
	}
}

func logLate(log *slog.Logger, what string, job *Job, jobs int64, late time.Duration, cause error) {
	log.Error(what, "queue", job.Queue, "group", job.GroupID, "job", job.ID, "attempt", job.Attempt(),
		"jobs", jobs, "late", late, "cause", cause)
}
