package fifo

import (
	"context"
	"fmt"
	"time"
)

// Why tells why the head of a group does not run, or who runs it: State, and Reason for people. It is what was true a
// moment ago. The database does not know which workers handle a queue: a head that is Due waits for one, for a lane of
// one, or because its workers try one job at a time (Unavailable, Stats.Probed). Somebody who changes the head by hand
// holds it as well. On a hot standby Why does not know who runs a job: see Groups. It returns ErrJobNotFound for a
// group that has no jobs, also if it is paused (see Pauses), and ErrInvalidID for a queue.
func (s Scope) Why(ctx context.Context) (Status, error) {
	if s.level != ofGroup {
		return Status{}, fmt.Errorf("%w: Why is for a group", ErrInvalidID)
	}
	list, err := s.Groups(ctx, Page{Limit: 1})
	if err != nil {
		return Status{}, err
	}
	if len(list) == 0 {
		return Status{}, fmt.Errorf("%w: the group %v has none", ErrJobNotFound, s)
	}
	return list[0], nil
}

// WhyJob is Why for a job of the queue or group. One that is Behind has the Status of its group, with Ahead: in a batch
// it may be running together with the head. Where several jobs of a group may run at once (Settings.GroupLimit), one
// that runs, or is the next to start, has a Status of its own, with Ahead. So has one that a worker's session runs
// (Settings.SessionLease) when a lower id has come before it. For a job that is Dead only its own fields are set:
// GroupID, JobID, Attempts, OldestAt, Since and LastFailure. It returns ErrJobNotFound for a job that is neither there
// nor a dead letter: it is done, was deleted, or never was.
func (s Scope) WhyJob(ctx context.Context, id int64) (Status, error) {
	const verb = "look for a job of"
	if err := s.forget(ctx, verb); err != nil {
		return Status{}, err
	}
	job, found := Status{Queue: s.queue, JobID: id}, false
	var most, running int
	var next bool
	err := s.read(ctx, verb, statement("job"), func(r row) error {
		found = true
		var dead bool
		var enqueuedAt, diedAt *time.Time
		var failure []byte
		err := r.Scan(&job.GroupID, &dead, &job.Ahead, &job.Attempts, &enqueuedAt, &diedAt, &failure,
			&most, &running, &next)
		job.OldestAt, job.Since, job.LastFailure = orZero(enqueuedAt), orZero(diedAt), decoded[*Failure](failure)
		if dead {
			job.State = Dead
		}
		return err
	}, s.queue, s.groupOrNull(), id, MaxQueued)
	if err != nil || job.State == Dead {
		return job, err
	}
	notFound := fmt.Errorf("%w: %d of %v", ErrJobNotFound, id, s)
	if !found {
		return Status{}, notFound
	}
	list, err := s.groupOf(job.GroupID).Groups(ctx, Page{Limit: 1})
	switch {
	case err != nil:
		return Status{}, err
	case len(list) == 0 || list[0].HeadID > id: // it has gone since
		return Status{}, notFound
	case list[0].HeadID < id:
		if most > 0 || list[0].groupFull { // it may run beside the head
			own, err := s.groupOf(job.GroupID).groupsBehind(ctx, position{job.Group(), id - 1}, 1)
			if err != nil {
				return Status{}, err
			}
			if len(own) == 1 && own[0].HeadID == id && (next || own[0].Held) {
				own[0].HeadID, own[0].Ahead = list[0].HeadID, job.Ahead
				own[0].groupFull = most > 0 && running >= most
				own[0].State = own[0].state()
				return own[0], nil
			}
		}
		list[0].JobID, list[0].Ahead, list[0].State = id, max(job.Ahead, 1), Behind
		list[0].headSince, list[0].Since = list[0].Since, time.Time{}
	}
	return list[0], nil
}

// state is that of the head.
func (s *Status) state() State {
	switch {
	case s.Held:
		return Held
	case s.Paused:
		return Paused
	case s.DueAt.IsZero() && (s.overLimit || s.groupFull):
		return OverLimit
	case s.DueAt.IsZero():
		return Due
	case s.Attempts > 0:
		return BackingOff
	default:
		return Delayed
	}
}

// Reason says State in a sentence, with what is known of it. For the zero Status it says that there is no job.
func (s *Status) Reason() string {
	if s.State == 0 {
		return "there is no job in this Status: see the error of Why or WhyJob"
	}
	job := fmt.Sprintf("job %d of %v ", s.JobID, s.Group())
	switch s.State {
	case Behind:
		return fmt.Sprintf("%swaits behind %d of its group; at its head, job %d %s",
			job, s.Ahead, s.HeadID, s.reason(s.HeadID, s.state(), s.headSince))
	case Dead:
		return fmt.Sprintf("%sis a dead letter since %s, after %d attempts%s",
			job, when(s.Since), s.Attempts, s.after())
	default:
		return job + s.reason(s.JobID, s.State, s.Since)
	}
}

// reason says what the job that it is about is doing, without its name, and since when.
func (s *Status) reason(about int64, state State, since time.Time) string {
	switch state {
	case Held:
		if s.PID == 0 {
			return "is locked by somebody who changes it, in a savepoint or a prepared transaction"
		}
		return fmt.Sprintf("runs since %s, in session %d of %q", when(s.HeldSince), s.PID, s.ApplicationName)
	case Paused:
		what := "the group is paused"
		switch {
		case s.PauseJob == about:
			what = "it blocks the group"
		case s.PauseJob != 0:
			what = fmt.Sprintf("job %d blocks the group", s.PauseJob)
		case s.queuePaused:
			what = "the queue is paused"
		}
		return fmt.Sprintf("waits: %s: %q", what, s.PauseReason)
	case BackingOff:
		return fmt.Sprintf("waits until %s; failed attempts: %d%s", when(s.DueAt), s.Attempts, s.after())
	case Delayed:
		return fmt.Sprintf("waits until %s: it was postponed, or sent with a delay", when(s.DueAt))
	case OverLimit:
		what := "queue"
		if s.groupFull {
			what = "group"
		}
		return fmt.Sprintf("may run since %s, and waits: the %s is at its limit", when(since), what)
	default:
		return fmt.Sprintf("may run since %s, and nobody has taken it: "+
			"no worker handles the queue, the lanes of its workers are busy, they try one job of it at a time "+
			"(Unavailable, Stats.Probed), the handler of a worker that has lost it goes on there, "+
			"or the server refuses something about the group (Stats.Troubles, and the log)", when(since))
	}
}

// after tells of the last failure, if there is one.
func (s *Status) after() string {
	if s.LastFailure == nil {
		return ""
	}
	at := ""
	if !s.LastFailure.At.IsZero() {
		at = ", at " + when(s.LastFailure.At)
	}
	return fmt.Sprintf("; the last failure%s: %s: %q", at, s.LastFailure.Kind, s.LastFailure.Error)
}

func when(t time.Time) string {
	if t.IsZero() {
		return "a time that this role may not see"
	}
	return t.UTC().Format(time.RFC3339)
}
