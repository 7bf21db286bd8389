package schedule

import (
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const queue = pgtest.Queue

func group(id string) groups.Key { return groups.Key{Queue: queue, GroupID: id} }

// A stage is one test's database.
type stage struct{ *pgtest.DB }

// newStage has the test run beside others.
func newStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	return &stage{pgtest.New(t)}
}

// dialer returns one whose lanes know how to settle a job that succeeds.
func (s *stage) dialer() *lease.Dialer {
	return &lease.Dialer{
		Pool: s.Pool.Config(), Control: s.Pool, Schema: s.Schema, Name: "lane of " + s.Name(),
		Statements: map[string]string{
			"succeed": "DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3",
		},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func (s *stage) lane() *lease.Lane {
	s.Helper()
	l, err := s.dialer().Dial(s.Context())
	require.NoError(s, err)
	s.Cleanup(func() { _ = l.Close() })
	return l
}

// step claims what the request is for, or ends the lane's transaction, and settles what it has by calls.
func (s *stage) step(l *lease.Lane, calls []lease.Call, next *lease.Request) *lease.Hold {
	s.Helper()
	h, settled, err := l.Step(s.Context(), calls, next)
	require.NoError(s, err)
	require.True(s, settled)
	return h
}

// claim makes the lane hold the group, which must be free.
func (s *stage) claim(l *lease.Lane, id string) *lease.Hold {
	s.Helper()
	h := s.step(l, nil, &lease.Request{Key: group(id)})
	require.NotNil(s, h, "group %s cannot be claimed", id)
	return h
}

// end is the step that ends the lane's transaction.
func (s *stage) end(l *lease.Lane, calls ...lease.Call) {
	s.Helper()
	require.Nil(s, s.step(l, calls, nil))
}

// succeed is what settles a job that has succeeded.
func succeed(h *lease.Hold) []lease.Call {
	args := [][]byte{[]byte(h.Queue), []byte(h.GroupID), strconv.AppendInt(nil, h.ID, 10)}
	return []lease.Call{{Statement: "succeed", Args: args}}
}
