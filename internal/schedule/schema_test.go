package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/migrations"
)

func TestTwoSchemasInOneDatabase(t *testing.T) {
	s := newStage(t)
	name, err := schema.Parse(`Other "one"`)
	require.NoError(t, err)
	require.NoError(t, migrations.Up(t.Context(), s.Pool, &migrations.Config{Schema: name.String()}))
	other := &stage{&pgtest.DB{T: t, URL: s.URL, Pool: s.Pool, Schema: name}}
	s.Enqueue(1, "a")
	s.Enqueue(1, "a")
	other.Enqueue(1, "a")

	l, otherLane := s.lane(), other.lane()
	h, otherHold := s.claim(l, "a"), other.claim(otherLane, "a")
	require.True(t, h.More)
	require.False(t, otherHold.More)
	require.Equal(t, []string{"a", "a/1"}, s.Locked())
	require.Equal(t, []string{"a", "a/1"}, other.Locked())
	other.end(otherLane, succeed(otherHold)...)
	require.Equal(t, 2, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
	require.Zero(t, pgtest.One[int](s.DB, `SELECT count(*) FROM "Other ""one""".jobs`))

	turns := NewTurns(10)
	scout := NewScout(turns, []string{queue}, name, time.Second)
	require.NoError(t, scout.Walk(t.Context(), s.Session().Conn))
	require.Nil(t, turns.TryNext())
	require.Equal(t, int64(1), other.collected())
	require.Equal(t, []string{"a"}, s.groupRows())
	s.end(l)
}
