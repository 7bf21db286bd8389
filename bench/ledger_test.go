package main

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

func jobOf(group, number int) *fifo.Job {
	return &fifo.Job{GroupID: groupID(group), Payload: binary.BigEndian.AppendUint64(nil, uint64(number))}
}

// A ledger that saw nothing wrong would let every run pass.
func TestLedger(t *testing.T) {
	t.Parallel()
	violations := map[string]func(l *ledger) error{
		"2 jobs of g00000001 at once": func(l *ledger) error {
			_, err := l.begin(jobOf(1, 0))
			require.NoError(t, err)
			_, err = l.begin(jobOf(1, 1))
			return err
		},
		"number 1 instead of 0": func(l *ledger) error { // overtaken, or the first is lost
			_, err := l.begin(jobOf(1, 1))
			return err
		},
		"number 0 instead of 1": func(l *ledger) error { // twice
			end, err := l.begin(jobOf(1, 0))
			require.NoError(t, err)
			end()
			_, err = l.begin(jobOf(1, 0))
			return err
		},
		"no job of this run": func(l *ledger) error {
			_, err := l.begin(jobOf(2, 0))
			return err
		},
	}
	for want, violate := range violations {
		l := newLedger(2)
		end, err := l.begin(jobOf(0, 0))
		require.NoError(t, err)
		end()
		require.NoError(t, l.err())
		require.ErrorContains(t, violate(l), want)
		require.ErrorContains(t, l.err(), "PROMISE BROKEN", want)
		<-l.failed
	}
}

// Several of a group may run at once, and no more; two that start together may be entered in either order.
func TestLedgerOfSeveral(t *testing.T) {
	t.Parallel()
	open := func(numbers ...int) (err error) {
		l := newLedger(1)
		l.most = 2
		for _, n := range numbers {
			_, err = l.begin(jobOf(0, n))
		}
		return err
	}
	require.NoError(t, open(1, 0))
	require.ErrorContains(t, open(0, 1, 2), "3 jobs of g00000000 at once")
	require.ErrorContains(t, open(2), "number 2 instead of 0")
}

// The audit notices a job that was lost with nobody there to see it.
func TestAudit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, err := openDatabase(ctx, serveShared, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.close()) })
	c := &crew{db: db, groups: 10, lanes: 2}
	c.prepare()
	require.NoError(t, c.fill(ctx, 100))
	_, err = c.work(ctx, 40)
	require.NoError(t, err)
	require.NoError(t, db.exec(ctx, "DELETE FROM pgfifo.jobs WHERE id = (SELECT max(id) FROM pgfifo.jobs)"))
	require.ErrorContains(t, c.audit(ctx), "PROMISE BROKEN")

	// Nor does a job in the middle of a group go missing unseen.
	require.NoError(t,
		db.exec(ctx, "DELETE FROM pgfifo.jobs WHERE id IN (SELECT min(id) FROM pgfifo.jobs GROUP BY group_id)"))
	_, err = c.work(ctx, 40)
	require.ErrorContains(t, err, "PROMISE BROKEN")
}
