package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A report is what the parent saw.
type report struct {
	jobs         int
	transactions int
	enqueued     time.Duration

	victim   string    // the worker that was killed
	pid      int       // its process
	held     int       // groups that it held just before
	at       int64     // entries in the ledger by then
	killedAt time.Time // by the server's clock, as applied_at

	worked    time.Duration // from the first entry to the last
	recovered time.Duration // from the kill to the first entry of a job that was lost with it
	lost      int64         // lost attempts that the other workers counted

	findings []finding
}

// measure reads from the ledger how long it took.
func (r *report) measure(ctx context.Context, pool *pgxpool.Pool) error {
	var first, last time.Time
	var restarted *time.Time // NULL if no job was lost
	err := pool.QueryRow(ctx, `
		SELECT min(applied_at), max(applied_at), min(applied_at) FILTER (WHERE attempt > 1) FROM ledger`).
		Scan(&first, &last, &restarted)
	if err != nil {
		return err
	}
	r.worked = last.Sub(first)
	if restarted != nil {
		r.recovered = restarted.Sub(r.killedAt)
	}
	return nil
}

// ok reports whether every claim holds.
func (r *report) ok() bool {
	for _, f := range r.findings {
		if f.wrong != 0 {
			return false
		}
	}
	return true
}

func (r *report) print(w io.Writer) {
	line := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%-11s"+format+"\n", append([]any{name}, args...)...)
	}
	line("enqueued", "%s jobs in %d groups in %v, with their transfers, in %d transactions",
		thousands(r.jobs), accounts, seconds(r.enqueued), r.transactions)
	line("worked", "in %v by %d processes of %d lanes: %s jobs/s",
		seconds(r.worked), workers, lanes, thousands(int(float64(r.jobs)/r.worked.Seconds())))
	line("killed", "%s (pid %d) after %s jobs; it held %d groups a moment before",
		r.victim, r.pid, thousands(int(r.at)), r.held)
	if r.lost > 0 {
		line("recovered",
			"%v after the kill the first of its jobs was done by another worker; lost attempts counted: %d",
			r.recovered.Round(time.Millisecond), r.lost)
	} else {
		line("recovered", "nothing: it was killed between two jobs")
	}
	_, _ = fmt.Fprintln(w, "\nproof, from the tables alone:")
	for _, f := range r.findings {
		verdict := "OK"
		if f.wrong != 0 {
			verdict = "FAILED"
		}
		_, _ = fmt.Fprintf(w, "  %-7s %s", verdict, f.claim)
		if f.wrong != 0 {
			_, _ = fmt.Fprintf(w, " (wrong: %s)", thousands(int(f.wrong)))
		}
		_, _ = fmt.Fprintln(w)
	}
}

func seconds(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// thousands returns 1234567 as 1,234,567.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
