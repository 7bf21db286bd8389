package groups

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Another worker may have had the group between a claim's snapshot and its lock, with a lower id that was committed meanwhile.
// That comes first, in whatever state the other one has left it.
func TestClaimSeesWhoHadItsGroup(t *testing.T) {
	t.Parallel()
	const backOff = "UPDATE pgfifo.jobs SET attempts = 1, run_at = 'infinity' WHERE id = 1"
	for name, x := range map[string]struct {
		at    site
		left  string // by the other one, of the job
		first []int64
	}{
		"it backs off":     {beforeGroup, backOff, nil},
		"it is given back": {beforeGroup, "SELECT 1", []int64{1}},
		"it is done":       {beforeGroup, "DELETE FROM pgfifo.jobs WHERE id = 1", []int64{2}},
		// The last moment, in which the group's xmax is read and its row not locked yet: see fifo/sql/retry.sql.
		"it backs off, and the group's row was read before": {
			groupIsRead, backOff + "; UPDATE pgfifo.queue_groups SET created_at = created_at WHERE group_id = 'a'", nil,
		},
	} {
		for how, take := range rightTakings(x.at) {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'a'), ('q', 'b'), ('q', 'held')")
				other, producer, worker, keeper := s.session(), s.session(), s.session(), s.session()
				other.do("BEGIN; SELECT FROM pgfifo.queue_groups WHERE group_id = 'held' FOR NO KEY UPDATE")
				producer.do("BEGIN; INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'a', '')")
				s.enqueue(2, "a")
				s.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'b', ''), ('q', 'held', '')")
				keeper.do("SELECT pg_advisory_lock(7)")
				pid, next := take(s)
				taken := make(chan []int64, 1)
				go func() { taken <- next() }()
				s.until(func() bool { return s.blocked(pid) })

				producer.do("COMMIT")
				worker.do(beginSQL)
				_, id, err := rightShape.claim(t.Context(), worker.Conn, "a")
				require.NoError(t, err)
				require.Equal(t, int64(1), id)
				worker.do(x.left + "; COMMIT")
				keeper.do("SELECT pg_advisory_unlock(7)")
				ids := <-taken
				if x.first == nil {
					require.Empty(t, ids)
				} else {
					require.Equal(t, x.first, ids[:1])
				}
			})
		}
	}
}

// A worker that dies between a claim's snapshot and its lock has lost an attempt, of the job that the claim has or of a lower
// one that it has not. It is counted once, and that job is worked first.
func TestStaleClaimKeepsEvidence(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"of its head": false, "of a lower id": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'a')")
			producer, keeper := s.session(), s.session()
			producer.do("BEGIN; INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'a', '')")
			s.enqueue(2, "a")
			if !late {
				producer.do("COMMIT")
			}
			keeper.do("SELECT pg_advisory_lock(7)")
			l := s.gatedLane(beforeGroup, stmtClaim)
			taken := make(chan *Hold, 1)
			go func() {
				h, _, _ := l.Step(context.WithoutCancel(t.Context()), nil, &Turn{Key: group("a")})
				taken <- h
			}()
			s.until(func() bool { return s.blocked(l.pg().PID()) })

			if late {
				producer.do("COMMIT")
			}
			worker := s.lane()
			require.Equal(t, int64(1), s.claim(worker, "a").ID)
			s.terminate(worker.pg().PID())
			keeper.do("SELECT pg_advisory_unlock(7)")
			h := <-taken
			require.NotNil(t, h)
			require.Equal(t, int64(1), h.ID)
			lost, err := l.Lost(t.Context())
			require.NoError(t, err)
			require.Len(t, lost, 1)
			s.end(l)
			require.False(t, s.lost("a"), "once")
		})
	}
}

// A claim that stays stale, as under a stranger's FOR KEY SHARE it may, is a miss that leaves nothing locked.
func TestClaimThatStaysStale(t *testing.T) {
	t.Parallel()
	always := site{"g.xmax AS xid", "pg_snapshot_xmax(pg_current_snapshot())::xid AS xid"}
	for name, x := range map[string]struct {
		stmt string
		with []*Turn
	}{
		"one":  {stmtClaim, nil},
		"many": {stmtMany, []*Turn{{Key: group("b")}, {Key: group("c")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.enqueue(1, "a", "b", "c")
			l := s.gatedLane(always, x.stmt)
			h, settled, err := l.Step(t.Context(), nil, &Turn{Key: group("a"), With: x.with})
			require.NoError(t, err)
			require.True(t, settled)
			require.Nil(t, h)
			require.Empty(t, s.locked())

			h, _, err = s.lane().Step(t.Context(), nil, &Turn{Key: group("a")})
			require.NoError(t, err)
			require.Equal(t, int64(1), h.ID)
		})
	}
}
