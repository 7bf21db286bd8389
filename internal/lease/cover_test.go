package lease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A claim that the server refuses is no death, however far it has come, and hides none unless it had locked the head.
func TestRefusedClaimAndEvidence(t *testing.T) {
	without := func(name string) [2]string {
		return [2]string{"ALTER TABLE pgfifo." + name + " RENAME TO away", "ALTER TABLE pgfifo.away RENAME TO " + name}
	}
	type row struct {
		request *Request
		refused [2]string // SQL that makes the server refuse, and SQL that undoes it
		hides   bool      // it has the head: nobody knows any more who had it before
	}
	pgtest.OverAll(t, map[string]row{
		"before the group is locked": {request("a"), without("queue_groups"), false},
		"before the head is locked":  {request("a"), without("pauses"), false},
		"in a slot":                  {&Request{Key: group("a"), Slot: true}, without("pauses"), false},
		"of a batch":                 {&Request{Key: group("a"), Jobs: 2}, without("pauses"), false},
		"of many":                    {request("a", "b"), without("pauses"), false},
		"behind one of many": {request("a", "b"), [2]string{ // the number of the next attempt is none
			"INSERT INTO pgfifo.attempt_marks SELECT queue, group_id, id, 2 FROM pgfifo.jobs WHERE group_id = 'b'; " +
				"UPDATE pgfifo.jobs SET attempts = 2147483647 WHERE group_id = 'b'",
			"UPDATE pgfifo.jobs SET attempts = 0 WHERE group_id = 'b'",
		}, true},
	}, func(t *testing.T, x row) {
		pgtest.OverEach(t, []string{"died", "lives"}, func(t *testing.T, worker string) {
			s := newStage(t)
			s.Enqueue(2, "a", "b")
			last := s.lane()
			s.claim(last, "a")
			if worker == "died" {
				s.Terminate(last.pg().PID())
			} else {
				s.end(last)
				s.Session().Do("BEGIN; SELECT FROM pgfifo.jobs FOR UPDATE; ROLLBACK") // an operator's look
			}
			if x.request.Slot {
				s.limit(1)
			}
			l := s.lane()
			s.Exec(x.refused[0])
			_, begun, err := l.Step(t.Context(), nil, x.request)
			require.True(t, begun && Blames(err), err)
			s.Exec(x.refused[1])
			for _, id := range []string{"a", "b"} {
				require.NoError(t, l.Cover(t.Context(), group(id)))
			}
			require.Equal(t, worker == "died" && !x.hides, s.lost("a"))
			require.False(t, s.lost("a"), "once")
			require.False(t, s.lost("b"))
		})
	})
}
