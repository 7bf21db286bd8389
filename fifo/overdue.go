package fifo

import (
	"context"
	"log/slog"
	"time"
)

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
