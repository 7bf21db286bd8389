package fifo_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func rarePolls(w *fifo.Worker) { w.PollInterval = time.Hour }

// quiet waits until the worker's scout has nothing to do until the next poll, as far as can be seen from outside: a
// notification is what it takes to wake it then.
func (b *bed) quiet(w *fifo.Worker) {
	b.t.Helper()
	b.send("quiet", nil)
	b.drained()
	b.listening()
	last, same := int64(-1), 0
	await(b.t, "the worker to settle down", func() bool {
		if claims := w.Stats().Claims; claims == last {
			same++
		} else {
			last, same = claims, 0
		}
		return same > 20
	})
}

// listeners returns how many workers listen for notices.
func (b *bed) listeners() int {
	b.t.Helper()
	return query[int](b, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND state = 'idle' AND query LIKE 'LISTEN %'`)
}

// A worker that polls as good as never hears of messages, whichever way they come.
func TestNotified(t *testing.T) {
	b := newBed(t)
	var died atomic.Bool
	w := b.worker(func(_ context.Context, job *fifo.Job) error {
		if string(job.Payload) == "dead" && died.CompareAndSwap(false, true) {
			return fifo.DeadLetter(errOnPurpose)
		}
		return nil
	}, func(w *fifo.Worker) { w.PollInterval = 200 * 365 * 24 * time.Hour })
	b.run(w)
	b.quiet(w)
	require.NoError(t, w.Ready(), "one that polls as good as never is ready")
	n := len(b.ledger.outcomes())
	ends := func(how string) {
		n++
		await(t, how, func() bool { return len(b.ledger.outcomes()) == n })
	}
	for i := range 3 {
		for _, group := range []string{"same", "new" + strconv.Itoa(i)} {
			m := fifo.Message{Queue: "q", GroupID: group}
			b.sendAll(m)
			ends("Enqueue")
			for kind, begin := range producers {
				p := begin(b)
				p.send(m)
				require.Len(t, b.ledger.outcomes(), n)
				require.NoError(t, p.commit())
				ends(kind)
			}
		}
	}
	b.send("dead", "dead")
	ends("death")
	require.Len(t, b.redrive(b.q, allAgain), 1)
	await(t, "the redriven job to end", func() bool { return b.count("jobs") == 0 })
}

// A worker hears of what was committed by another process' client, of many groups at once, and of other queues not.
func TestNotifiedOfMany(t *testing.T) {
	b := newBed(t)
	w := b.worker(nop, rarePolls)
	b.run(w)
	b.quiet(w)
	other := b.open(pgtest.Connect(t, b.url))
	var msgs []fifo.Message
	for i := range 500 { // more than fit in a notice
		msgs = append(msgs, fifo.Message{Queue: "q", GroupID: strconv.Itoa(i)}, fifo.Message{Queue: "r", GroupID: "g"})
	}
	require.NoError(t, second(other.Enqueue(t.Context(), msgs...)))
	await(t, "all groups", func() bool { return b.count("jobs") == 500 })
}

// What is put back into more groups than a notice can name may be anywhere below what workers have finished. They are
// told so.
func TestNoticeOfManyPutBack(t *testing.T) {
	b := newBed(t)
	b.exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
		SELECT 'q', i - 1, nextval('pgfifo.jobs_id_seq'), '', 1, now() FROM generate_series(1, 100) i`)
	e := b.listen()
	for _, redrive := range []struct {
		do   fifo.Redrive
		want string
	}{
		{again(1), `{"q":"q","g":[{"g":"0","i":1}],"b":true}`},
		{allAgain, `{"q":"q","b":true}`},
	} {
		b.redrive(b.q, redrive.do)
		text := e.next()
		for !strings.Contains(text, `"b"`) {
			text = e.next()
		}
		require.JSONEq(t, redrive.want, text)
	}
	b.run(b.worker(nop, rarePolls))
	b.drained()
	b.send("g", nil)
	require.NotContains(t, e.next(), `"b"`, "nothing is put back by an enqueue")
}

// Without notifications polling finds everything, and nothing listens or notifies.
func TestPollOnly(t *testing.T) {
	b := newBed(t, func(c *fifo.Config) { c.PollOnly = true })
	e := b.listen()
	w := b.worker(nop, func(w *fifo.Worker) { w.PollInterval = 20 * time.Millisecond })
	b.run(w)
	b.quiet(w)
	for _, begin := range producers {
		p := begin(b)
		p.send(fifo.Message{Queue: "q", GroupID: "g"})
		require.NoError(t, p.commit())
		b.drained()
	}
	require.Equal(t, 1, query[int](b, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND query ILIKE 'listen%'`), "only the test does")
	require.Empty(t, e.before())
}

// What is not due yet is worked when it is, without a poll: a delayed message, and a retry.
func TestDueInTime(t *testing.T) { overLeases(t, testDueInTime) }

func testDueInTime(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.sendAll(fifo.Message{Queue: "q", GroupID: "before", Delay: 300 * time.Millisecond}) // before the worker starts
	b.run(b.worker(failing(1, fifo.RetryAfter(300*time.Millisecond, errOnPurpose)), rarePolls))
	b.sendAll(fifo.Message{Queue: "q", GroupID: "after", Delay: 500 * time.Millisecond},
		fifo.Message{Queue: "q", GroupID: "after"}) // waits behind it
	b.drained()
	require.Len(t, b.ledger.order(), 6)
}

// Any role may send notices. Whatever they say, the worker goes on.
func TestMalformedNotices(t *testing.T) {
	b := newBed(t)
	w := b.worker(nop, rarePolls)
	b.run(w)
	b.quiet(w)
	for _, text := range []string{
		"", "x", "null", "[]", "{}", `{"q":1}`, `{"q":"q"}`, `{"q":"none","g":[{"g":"g","i":1}]}`, `{"q":"q","g":[]}`,
		`{"q":"q","g":[{}]}`, `{"q":"q","g":[null]}`, `{"q":"q","g":[{"g":"no such group","i":9223372036854775807}]}`,
		`{"q":"q","g":[{"g":"quiet","i":-9223372036854775808}]}`, `{"q":"q","g":[{"g":"\u0000","i":1}]}`,
		`{"q":"q","g":[{"g":"quiet","i":1e99}]}`, `{"q":"q","g":[{"g":"\ud800","i":1}]}`, `{"q":{"q":{"q":[`,
	} {
		b.exec("SELECT pg_notify('pgfifo', $1)", text)
	}
	n := len(b.ledger.order())
	b.send("quiet", nil)
	b.send("other", nil)
	b.drained()
	require.Len(t, b.ledger.order(), n+2)
	require.Empty(t, b.ledger.faults)
}

// A lower id that is committed late is worked soon although its group never rests: its lane must not only look above
// what it has finished. Nobody tells of it, or a notice does.
func TestLateCommitInBusyGroup(t *testing.T) { overLeases(t, testLateCommitInBusyGroup) }

func testLateCommitInBusyGroup(t *testing.T, by lease) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, told bool) {
		b := by.on(newBed(t))
		b.ledger.unordered = true
		var stop atomic.Bool
		late := make(chan struct{})
		b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
			switch {
			case string(job.Payload) == "late":
				close(late)
			case !stop.Load(): // there is always one more
				_, err := b.client.Enqueue(ctx, fifo.Message{Queue: "q", GroupID: "g"})
				return err
			}
			return nil
		}, oneLane))
		p := producers["pgx.Tx"](b)
		p.send(fifo.Message{Queue: "q", GroupID: "g", Payload: "late"})
		b.send("g", nil, nil, nil)
		await(t, "the group to be busy", func() bool { return len(b.ledger.order()) > 50 })
		if !told {
			require.NoError(t, p.undo())
			b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ('q', 'g', 1, 'late')`)
		} else {
			require.NoError(t, p.commit())
		}
		receive(t, late, "the late one")
		stop.Store(true)
		b.drained()
	})
}
