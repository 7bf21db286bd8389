package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// What the scout watches beside its walks: the groups that others hold, and those who enqueue.

// heldGap returns how long to leave the groups alone that others hold. Busy lanes do not need them soon, but one of
// them may have lost its worker.
func (v View) heldGap() time.Duration {
	if v.Idle {
		return tuning.Look / 2
	}
	return tuning.Look
}

// checkHeld looks which of the groups that others hold are free: a cheap question about their transactions first, and
// then one about the groups of those that ended.
func (s *Scout) checkHeld(ctx context.Context, conn *pgx.Conn) error {
	s.checked = time.Now()
	xids, keys := s.Turns.Held()
	died := make(map[int64]bool) // the transactions that ended, and whether their workers died
	if len(xids) > 0 {
		rows, err := conn.Query(ctx, s.Schema.Qualify(endedSQL), xids)
		if err == nil {
			var xid int64
			var aborted bool
			_, err = pgx.ForEachRow(rows, []any{&xid, &aborted}, func() error {
				died[xid] = aborted
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("schedule: look at other workers: %w", err)
		}
	}
	ended, orphans := s.Turns.HeldBy(died)
	keys = append(keys, ended...)
	released, err := s.released(ctx, conn)
	if err != nil {
		return err
	}
	keys = append(keys, released...)
	s.orphans = orphans
	defer func() { s.orphans = nil }()
	if len(keys) == 0 {
		return nil
	}
	looked := s.Turns.Gone(keys)
	if err := s.probe(ctx, conn, keys); err != nil {
		return err
	}
	looked()
	return nil
}

// released returns the groups that sessions have let go, which live on. A session that ends tells of all its groups at
// once, as a transaction does of its own; of one that is let go only its row tells.
func (s *Scout) released(ctx context.Context, conn *pgx.Conn) (released []groups.Key, err error) {
	begin := time.Now()
	if begin.Sub(s.kept.walked) < tuning.Share*s.kept.batch {
		return nil, nil
	}
	keys, sessions := s.Turns.Kept()
	if len(keys) == 0 {
		return nil, nil
	}
	defer func() { s.kept = rhythm{time.Now(), time.Since(begin)} }()
	queues, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		queues[i], ids[i] = key.Queue, key.GroupID
	}
	rows, err := conn.Query(ctx, s.Schema.Qualify(releasedSQL), queues, ids, sessions)
	if err == nil {
		var n int
		_, err = pgx.ForEachRow(rows, []any{&n}, func() error {
			released = append(released, keys[n-1])
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("schedule: look at what sessions hold: %w", err)
	}
	return released, nil
}

// nextAsk returns how long to leave those alone who enqueue.
func (s *Scout) nextAsk() time.Duration { return s.askGap - time.Since(s.asked) }

// checkWriters asks who may still bring a job with a lower id than those that are finished: see floors. The next look
// is due when so many claims have missed it as a statement reads rows, for it is worth as much then; but not so soon
// that looking takes over a 20th of the time.
func (s *Scout) checkWriters(ctx context.Context, conn *pgx.Conn) error {
	begin := time.Now()
	missed := s.Turns.AskWriters()
	each := min(begin.Sub(s.asked), tuning.Wait) / time.Duration(max(missed, 1))
	writers, prepared, err := s.askWriters(ctx, conn)
	if err != nil {
		return err
	}
	s.Turns.Writers(writers, prepared)
	s.asked = time.Now()
	s.askGap = max(min(tuning.Rows*each, tuning.Wait), tuning.Rest, tuning.Share*s.asked.Sub(begin))
	return nil
}

// askWriters returns the transactions that write to the jobs, and whether one of them is prepared.
func (s *Scout) askWriters(ctx context.Context, conn *pgx.Conn) (writers []string, prepared bool, err error) {
	var writer string
	var is bool
	rows, err := conn.Query(ctx, writersSQL, s.Schema.String())
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&writer, &is}, func() error {
			writers, prepared = append(writers, writer), prepared || is
			return nil
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("schedule: look at those who enqueue: %w", err)
	}
	return writers, prepared, nil
}
