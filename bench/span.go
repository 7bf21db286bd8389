package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// A span is what was seen of a system under a snapshot, from beginning to end.
type span struct {
	every  time.Duration
	before float64 // jobs per second before the snapshot
	marks  []mark
	dead   int64
}

// A mark is what had happened until then.
type mark struct {
	at      time.Duration
	done    int64
	calls   int64   // of the statements that take jobs; both as of the last look at them
	claimed float64 // milliseconds in them
}

// rate is jobs per second since another mark.
func (m mark) rate(since mark) float64 {
	return float64(m.done-since.done) / (m.at - since.at).Seconds()
}

// claim is the mean time of a claim since another mark, in milliseconds, and 0 if none was counted.
func (m mark) claim(since mark) float64 {
	if m.calls <= since.calls {
		return 0
	}
	return (m.claimed - since.claimed) / float64(m.calls-since.calls)
}

// warm waits from the first job on, and measures the rate without the snapshot in the second half.
func (sp *span) warm(ctx context.Context, sub *subject, d time.Duration) error {
	if err := until(ctx, func() (bool, error) { return sub.done() > 0, nil }); err != nil {
		return err
	}
	if err := pause.For(ctx, d/2); err != nil {
		return err
	}
	begin, done := time.Now(), sub.done()
	if err := pause.For(ctx, d/2); err != nil {
		return err
	}
	sp.before = float64(sub.done()-done) / time.Since(begin).Seconds()
	return nil
}

// looks is how many marks share one look at the statements, which is not free: 5, or less of a short run.
func (sp *span) looks(during time.Duration) int { return min(max(int(during/sp.every)/12, 1), 5) }

// follow makes the marks.
func (sp *span) follow(ctx context.Context, b *bench, sub *subject, during time.Duration) error {
	tick := time.NewTicker(sp.every)
	defer tick.Stop()
	now := mark{done: sub.done()}
	if err := sp.look(ctx, b.database, sub, &now); err != nil {
		return err
	}
	sp.marks = append(sp.marks, now)
	begin := time.Now()
	for i := 1; now.at < during; i++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		now.at, now.done = time.Since(begin), sub.done()
		if i%sp.looks(during) == 0 || now.at >= during {
			if err := sp.look(ctx, b.database, sub, &now); err != nil {
				return err
			}
		}
		sp.marks = append(sp.marks, now)
	}
	return nil
}

// look adds up what the server counted of the statements that take jobs.
func (sp *span) look(ctx context.Context, db *database, sub *subject, m *mark) error {
	list, err := db.statements(ctx)
	m.calls, m.claimed = 0, 0
	for _, st := range list {
		if sub.claims(st) {
			m.calls += st.Calls
			m.claimed += st.Total
		}
	}
	return err
}

// countDead counts the rows that vacuum could not remove.
func (sp *span) countDead(ctx context.Context, db *database) error {
	return db.pool.QueryRow(ctx, "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables").Scan(&sp.dead)
}

// ends are the first and the last part, of a minute each or a third of the whole.
func (sp *span) ends() (part time.Duration, head, tail [2]mark) {
	first, last := sp.marks[0], sp.marks[len(sp.marks)-1]
	part = min(time.Minute, last.at/3)
	head, tail = [2]mark{first, last}, [2]mark{first, last}
	for _, m := range sp.marks {
		if m.at <= part {
			head[1] = m
		}
		if m.at <= last.at-part {
			tail[0] = m
		}
	}
	if head[1].at == 0 { // shorter than the time between two marks
		head[1] = sp.marks[1]
	}
	return part, head, tail
}

func (sp *span) result(system string, params map[string]any) Result {
	first, last := sp.marks[0], sp.marks[len(sp.marks)-1]
	part, head, tail := sp.ends()
	r := Result{
		System: system, Params: params, Rate: last.rate(first),
		RatioTo: "its first " + part.Round(time.Second).String(),
	}
	r.Extra = map[string]float64{
		"jobs": float64(last.done - first.done), "dead_rows": float64(sp.dead), "before_per_s": sp.before,
		"first_per_s": head[1].rate(head[0]), "last_per_s": tail[1].rate(tail[0]),
	}
	if r.Extra["first_per_s"] > 0 {
		r.Ratio = r.Extra["last_per_s"] / r.Extra["first_per_s"]
	}
	if last.calls > 0 {
		r.Extra["first_claim_ms"], r.Extra["last_claim_ms"] = head[1].claim(head[0]), tail[1].claim(tail[0])
	}
	return r
}

// rates and claims are the curves.
func (sp *span) rates(name string) series {
	curve := series{name: name}
	for i := 1; i < len(sp.marks); i++ {
		curve.add(sp.marks[i].at.Seconds(), sp.marks[i].rate(sp.marks[i-1]))
	}
	return curve
}

func (sp *span) claims(name string) series {
	curve, last := series{name: name}, sp.marks[0]
	for _, m := range sp.marks {
		if m.calls > last.calls {
			curve.add(m.at.Seconds(), m.claim(last))
			last = m
		}
	}
	return curve
}

// A snapshot is an old transaction: it may look at everything as it was when it began, so that vacuum must leave all of
// it in place.
type snapshot struct{ conn *pgx.Conn }

// holdSnapshot opens one, with a transaction id of its own, as one that has written something would have.
func holdSnapshot(ctx context.Context, url string) (*snapshot, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	s := &snapshot{conn}
	for _, sql := range []string{
		"BEGIN ISOLATION LEVEL REPEATABLE READ", "SET LOCAL idle_in_transaction_session_timeout = 0",
		"SELECT pg_current_xact_id()",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
	}
	return s, nil
}

// end lets go, and fails if the snapshot was not held until now.
func (s *snapshot) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var held bool
	err := s.conn.QueryRow(ctx, `SELECT backend_xmin IS NOT NULL AND backend_xid IS NOT NULL
		FROM pg_stat_activity WHERE pid = pg_backend_pid()`).Scan(&held)
	if err == nil && !held {
		err = errors.New("it holds nothing")
	}
	if err != nil {
		err = fmt.Errorf("snapshot: %w", err)
	}
	return errors.Join(err, s.conn.Close(ctx))
}
