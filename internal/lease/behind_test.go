package lease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Who keeps a job open behind the head of a batch does not keep the lane for long: the batch is given back, and no
// attempt is counted.
func TestJobBehindTheHeadIsKeptOpen(t *testing.T) {
	const edit = "UPDATE pgfifo.jobs SET payload = 'newer' WHERE id = 2"
	type row struct {
		open string
		also string // what somebody waits for who comes before the lane does
		used bool
	}
	pgtest.OverAll(t, map[string]row{
		"edited":                  {open: edit},
		"edited, effects":         {open: edit, used: true},
		"deleted":                 {open: "DELETE FROM pgfifo.jobs WHERE id = 2"},
		"locked":                  {open: "SELECT FROM pgfifo.jobs WHERE id = 3 FOR UPDATE"},
		"locked, somebody waits":  {open: "SELECT FROM pgfifo.jobs WHERE id = 2 FOR UPDATE", also: edit},
		"both are not there then": {open: edit, also: "DELETE FROM pgfifo.jobs WHERE id = 2"},
	}, func(t *testing.T, x row) {
		s := newStage(t)
		s.Exec("CREATE TABLE effects (v text)")
		s.Enqueue(3, "a")
		l := s.lane()
		h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
		require.Len(t, h.Rest, 2)
		if x.used {
			require.NoError(t, l.Lend(t.Context(), func() { s.write(s.pgxTx(h), "1") }))
		}
		first, second := s.Session(), s.Session()
		first.Do("BEGIN; " + x.open)
		if x.also != "" {
			second.Start(x.also)
			s.Until(func() bool { return s.Blocked(second.PgConn().PID()) })
		}
		require.ErrorIs(t, s.unsettled(l, append(succeed(h), behind(h)), nil), ErrGivenBack)
		first.Do("ROLLBACK")
		require.Empty(t, pgtest.Column[string](s.DB, "SELECT v FROM effects"))
		require.False(t, s.lost("a"), "nobody has died")
	})
}

// Other waits of a batch are not ended: that of what a handler has left to the end of its transaction, say.
func TestBatchWaitsForItsTrigger(t *testing.T) {
	s := newStage(t)
	s.Exec(`CREATE TABLE effects (v text); CREATE TABLE audit (n int); INSERT INTO audit VALUES (0);
		CREATE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN UPDATE audit SET n = n + 1; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER audited AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION audited()`)
	s.Enqueue(3, "a")
	l := s.lane()
	h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
	require.NoError(t, l.Lend(t.Context(), func() { s.write(s.pgxTx(h), "1") }))
	other := s.Session()
	other.Do("BEGIN; UPDATE audit SET n = 10")
	var err error
	ended := make(chan struct{})
	other.Go(func() {
		defer close(ended)
		_, _, err = l.Step(t.Context(), append(succeed(h), behind(h)), nil)
	})
	s.Until(func() bool {
		return pgtest.One[bool](s.DB, "SELECT wait_event_type = 'Lock' AND "+
			"query_start < clock_timestamp() - interval '2.5 s' FROM pg_stat_get_activity($1)", l.stream.pid)
	})
	other.Do("COMMIT")
	<-ended
	require.NoError(t, err)
	require.Equal(t, 11, pgtest.One[int](s.DB, "SELECT n FROM audit"))
	require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
}
