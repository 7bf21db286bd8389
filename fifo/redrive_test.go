package fifo_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// died plants dead letters of queue q, each with its last failure, or with none if that has no kind.
func (b *bed) died(list ...fifo.Job) {
	b.t.Helper()
	for _, d := range list {
		b.exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, headers, attempts, enqueued_at, failures)
			VALUES ('q', $1, $2, 'old', '{"old": "1"}', 7, '2026-01-01 UTC', jsonb_build_array(
				jsonb_build_object('kind', 'error', 'error', 'the one before', 'at', now()),
				jsonb_build_object('kind', $3::text, 'error', $4::text, 'at', now())))`,
			d.GroupID, d.ID, d.Failures[0].Kind, d.Failures[0].Error)
	}
}

func letter(group string, id int64, kind, text string) fifo.Job {
	return fifo.Job{GroupID: group, ID: id, Failures: []fifo.Failure{{Kind: kind, Error: text}}}
}

// audited has the jobs that were redriven audited in place of the dead letters.
func (b *bed) audited(jobs []int64, letters ...int64) {
	b.t.Helper()
	require.Len(b.t, jobs, len(letters))
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	b.ledger.sent = slices.DeleteFunc(b.ledger.sent, func(id int64) bool { return slices.Contains(letters, id) })
	b.ledger.sent = append(b.ledger.sent, jobs...)
}

// redrive returns the jobs that dead letters have become.
func (b *bed) redrive(s fifo.Scope, r fifo.Redrive) []int64 {
	b.t.Helper()
	jobs, _, err := s.Redrive(promptly(b.t), r)
	require.NoError(b.t, err)
	return jobs
}

// redriven returns those of the queue's dead letters that are gone.
func (b *bed) redriven(letters []fifo.Job, s fifo.Scope) []fifo.Job {
	b.t.Helper()
	there := letterIDs(b.lettersOf(s, fifo.Letters{}))
	return slices.DeleteFunc(slices.Clone(letters), func(d fifo.Job) bool { return slices.Contains(there, d.ID) })
}

func toTail(of fifo.Letters) fifo.Redrive { return fifo.Redrive{Letters: of, ToTail: true} }

func TestRedriveToTail(t *testing.T) {
	b := newBed(t)
	b.run(b.worker(nop, oneLane))
	for kind, within := range scopesWithin {
		require.NoError(t, pausing(b.q.Pause(t.Context(), "until all is there")))
		g, head := "g "+kind, fifo.Headers{"h": "\x00"}
		dead := b.sendAll(
			fifo.Message{Queue: "q", GroupID: g, Payload: "dead", Headers: head, MaxAttempts: 3},
			fifo.Message{Queue: "q", GroupID: "h", Payload: "dead"},
			fifo.Message{Queue: "q", GroupID: g, Payload: "dead"})
		b.bury()
		waiting := b.send(g, "waits", "waits")
		letters := b.deadLetters()
		var tail []int64
		var last string
		b.undoneAndKept(within, b.q, func(s fifo.Scope) {
			var err error
			tail, last, err = s.Redrive(t.Context(), toTail(fifo.Letters{All: true}))
			require.NoError(t, err)
		}, func() {
			require.Len(t, b.deadLetters(), 3)
			require.Len(t, b.jobs(), 2)
		})
		require.Equal(t, []int64{dead[0], dead[2], dead[1]}, letterIDs(letters), "the order of lists")
		require.Equal(t, letters[2].Cursor(), last)
		require.Empty(t, b.deadLetters())
		b.audited(tail, dead...)
		require.Greater(t, tail[0], waiting[1])
		require.Greater(t, tail[1], tail[2], "the order of the letters is kept")
		jobs := b.jobs()
		require.Len(t, jobs, 5)
		job := jobs[2]
		require.Equal(t, tail[0], job.ID)
		require.Equal(t, "dead", string(job.Payload))
		require.Equal(t, head, job.Headers)
		require.Zero(t, job.Attempts)
		require.Equal(t, 3, job.MaxAttempts)
		require.Equal(t, letters[0].EnqueuedAt, job.EnqueuedAt)
		require.Equal(t, letters[0].Failures, job.Failures)
		require.Zero(t, job.RunAt)
		b.resumes(b.q)
		b.drained()
		_, _, order := b.ledger.of(g)
		require.Equal(t, append(waiting, tail[0], tail[1]), order, kind)
	}
}

// A worker that would poll once an hour hears of it, also while it runs a job of the group, which is not disturbed.
func TestRedriveToTailOfBusyGroup(t *testing.T) {
	b := newBed(t)
	dead := b.send("g", "dead")
	b.bury()
	h := newBlocking()
	b.run(b.worker(h.handle, rarePolls))
	later := b.send("g", nil, nil)
	b.holder("g")
	tail := b.redrive(b.q.Group("g"), toTail(fifo.Letters{All: true}))
	b.audited(tail, dead...)
	for range 3 {
		h.release <- struct{}{}
	}
	b.drained()
	require.Equal(t, append(later, tail[0]), b.ledger.order())

	b.send("g", nil)
	h.release <- struct{}{}
	b.drained()
	b.died(letter("g", 1, "error", ""))
	b.redrive(b.q, toTail(named(1)))
	h.release <- struct{}{}
	b.drained()
}

// A paused group gets what is redriven when it is resumed.
func TestRedriveIntoPausedGroup(t *testing.T) {
	b := newBed(t)
	b.ledger.unordered = true
	dead := b.send("g", "dead", "dead")
	b.bury()
	g := b.q.Group("g")
	require.NoError(t, pausing(g.Pause(t.Context(), "")))
	w := b.worker(nop, rarePolls)
	b.run(w)
	for i, tail := range []bool{true, false} {
		b.audited(b.redrive(g, fifo.Redrive{Letters: fifo.Letters{All: true, Limit: 1}, ToTail: tail}), dead[i])
	}
	b.send("other", nil)
	await(t, "the other group's job", func() bool { return w.Stats().Succeeded == 1 })
	require.Equal(t, 2, b.count("jobs"))
	b.resumes(g)
	b.drained()
	order := b.ledger.order()
	require.Equal(t, dead[1], order[len(order)-2])
	require.Greater(t, order[len(order)-1], dead[1])
}

// One dead letter may be mended on the way, in any transaction, in its place or at the tail. What is not replaced
// stays, and what is too large together is refused.
func TestRedriveEdited(t *testing.T) {
	large := strings.Repeat("x", fifo.MaxPayloadBytes)
	pgtest.OverAll(t, scopesWithin, func(t *testing.T, within scopeWithin) {
		b := newBed(t)
		for i, x := range []struct {
			payload any
			headers fifo.Headers
			want    string
			and     fifo.Headers
		}{
			{nil, nil, "old", fifo.Headers{"old": "1"}},
			{"new", nil, "new", fifo.Headers{"old": "1"}},
			{[]byte(nil), nil, "old", fifo.Headers{"old": "1"}},
			{[]byte{}, nil, "", fifo.Headers{"old": "1"}},
			{map[string]int{"a": 1}, fifo.Headers{}, `{"a":1}`, nil},
			{nil, fifo.Headers{"new": "\x00"}, "old", fifo.Headers{"new": "\x00"}},
			{nil, fifo.Headers{}, "old", nil},
			{large, fifo.Headers{}, large, nil},
			{large, nil, "", nil},
			{nil, fifo.Headers{"n": large[4:]}, "old", fifo.Headers{"n": large[4:]}},
			{nil, fifo.Headers{"n": large[3:]}, "", nil},
		} {
			group, id := string(rune('a'+i)), int64(1000+i)
			b.died(letter(group, id, "error", ""))
			s, end := within(b, b.q.Group(group))
			list, _, err := s.Redrive(t.Context(), fifo.Redrive{
				Letters: named(id), ToTail: i%2 == 0, Payload: x.payload, Headers: x.headers,
			})
			if end.commit != nil {
				require.NoError(t, end.commit())
			}
			if x.want == "" && x.and == nil {
				require.ErrorIs(t, err, fifo.ErrPayloadTooLarge)
				require.Empty(t, list)
				require.Len(t, b.deadLetters(), 1)
				b.exec("DELETE FROM pgfifo.dead_letters")
				continue
			}
			require.NoError(t, err)
			require.Len(t, list, 1)
			job := only(t, b.jobsOf(b.q.Group(group)))
			same(t, i, x.want, string(job.Payload))
			require.Equal(t, x.and, job.Headers)
		}
		s, end := within(b, b.q.Group("none"))
		require.Empty(t, b.redrive(s, fifo.Redrive{Letters: named(7), Payload: "new"}))
		if end.undo != nil {
			require.NoError(t, end.undo())
		}
	})
}

// Of two who redrive a part at once, the second has the next ones, or the first's if those were put back.
func TestRedrivesAtOnce(t *testing.T) {
	pgtest.OverEach(t, []bool{true, false}, func(t *testing.T, kept bool) {
		pgtest.OverEach(t, []bool{true, false}, func(t *testing.T, tail bool) {
			b := newBed(t)
			b.died(letter("a", 1001, "error", ""), letter("a", 1002, "error", ""), letter("b", 1003, "error", ""),
				letter("b", 1004, "error", ""), letter("c", 1005, "error", ""))
			step := fifo.Redrive{Letters: fifo.Letters{Kind: "error", Limit: 2}, ToTail: tail}
			tx := b.begin()
			letters := b.deadLetters()
			require.Len(t, b.redrive(b.q.InPgx(tx), step), 2)
			require.Equal(t, []int64{1001, 1002}, letterIDs(b.redriven(letters, b.q.InPgx(tx))))
			jobs := 0
			done := beside(func() (err error) {
				jobs, err = counted(b.q.Redrive(context.WithoutCancel(t.Context()), step))
				return err
			})
			await(t, "the second to wait", func() bool { return b.waiting("") })
			want := []int64{1001, 1002}
			if kept {
				require.NoError(t, tx.Commit(t.Context()))
				want = append(want, 1003, 1004)
			} else {
				require.NoError(t, tx.Rollback(t.Context()))
			}
			require.NoError(t, receive(t, done, "the second"))
			require.Equal(t, 2, jobs)
			require.Equal(t, want, letterIDs(b.redriven(letters, b.q)))
			require.Equal(t, 5, b.count("jobs")+b.count("dead_letters"))
		})
	})
}

// A dead letter whose id is alive again goes to the tail only. Nothing is lost.
func TestRedriveOfALivingID(t *testing.T) {
	b := newBed(t)
	b.died(letter("g", 1001, "error", ""), letter("g", 1002, "error", ""))
	b.exec("INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ('q', 'g', 1002, 'other')")
	g := b.q.Group("g")
	_, _, err := g.Redrive(t.Context(), allAgain)
	require.ErrorContains(t, err, "23505")
	require.Equal(t, 2, b.count("dead_letters"))
	require.Equal(t, 1, b.count("jobs"))
	require.Len(t, b.redrive(g, toTail(named(1002))), 1)
	require.Len(t, b.redrive(g, allAgain), 1)
	require.Equal(t, 3, b.count("jobs"))
}

// With CommitOrder, a redrive to the tail waits for who has enqueued to the group, and comes behind; one to the
// original place does not.
func TestRedriveToTailInCommitOrder(t *testing.T) {
	b := newBed(t, commitOrder)
	b.died(letter("g", 1, "error", ""), letter("g", 2, "error", ""), letter("h", 3, "error", ""))
	b.exec("SELECT setval('pgfifo.jobs_id_seq', 3)")
	p := producers["pgx.Tx"](b)
	p.send(fifo.Message{Queue: "q", GroupID: "g"})
	require.Len(t, b.redrive(b.q, again(1)), 1)
	require.Len(t, b.redrive(b.q, toTail(named(3))), 1)
	done := make(chan []int64, 1)
	go func() {
		list, _, _ := b.q.Redrive(context.WithoutCancel(t.Context()), toTail(named(2)))
		done <- list
	}()
	await(t, "the redrive to wait", func() bool { return b.waiters() == 1 })
	ids := p.send(fifo.Message{Queue: "q", GroupID: "g"})
	require.NoError(t, p.commit())
	list := receive(t, done, "the redrive")
	require.Len(t, list, 1)
	require.Greater(t, list[0], ids[0])
}
