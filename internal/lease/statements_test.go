package lease

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A handler may take the session's prepared statements away: its job is settled all the same, whether it succeeds or
// fails. The lane could go on, and is spoiled.
func TestStatementsTakenAway(t *testing.T) {
	exec := func(sql string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, sql); return err }
	}
	pgtest.OverAll(t, map[string]func(context.Context, pgx.Tx) error{
		"by pgx": func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().DeallocateAll(ctx) },
		"by the raw connection": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().PgConn().Exec(ctx, "DEALLOCATE ALL").ReadAll()
			return err
		},
		"by SQL":                 exec("DEALLOCATE ALL"),
		"by SQL, all of them":    exec("DEALLOCATE PREPARE ALL"),
		"one of them":            exec("DEALLOCATE " + stmtClaim),
		"what has no plans left": exec("DISCARD PLANS"),
	}, func(t *testing.T, take func(context.Context, pgx.Tx) error) {
		pgtest.OverAll(t, map[string]bool{"succeeds": false, "fails": true}, func(t *testing.T, fails bool) {
			s := newStage(t)
			s.Enqueue(2, "a")
			l := s.lane()
			for range 2 {
				h := s.claim(l, "a")
				err := l.Lend(t.Context(), func() {
					tx := s.pgxTx(h)
					require.NoError(t, take(t.Context(), tx))
					if fails {
						_, err := tx.Exec(t.Context(), nonsense)
						require.Error(t, err)
					}
				})
				require.Equal(t, fails, err != nil, err)
				settle := succeed(h)
				if fails {
					require.NoError(t, l.Undo(t.Context()))
					settle = retryIn(h, 0)
				}
				s.end(l, settle...)
			}
			require.True(t, l.Spoiled())
			want := 0
			if fails {
				want = 2
			}
			require.Equal(t, want, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
		})
	})
}

// takeUnseen takes the statements away where nobody looks.
const takeUnseen = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"

// Statements that are taken away unseen are no failure of the job's: it runs again, and is settled then.
func TestStatementsTakenAwayUnseen(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, kept bool) {
		s := newStage(t)
		s.Enqueue(1, "a")
		d := s.dialer(Bounds{})
		for attempt := range 2 {
			l := s.dial(d)
			h := s.claim(l, "a")
			require.Empty(t, s.found(l))
			require.NoError(t, l.Lend(t.Context(), func() { s.do(s.pgxTx(h), takeUnseen) }))
			var err error
			if kept {
				err = l.KeepWrites(t.Context())
			}
			settled := false
			if err == nil {
				_, settled, err = l.Step(t.Context(), succeed(h), nil)
			}
			if attempt > 0 {
				require.NoError(t, err)
				require.True(t, settled)
				break
			}
			require.ErrorIs(t, err, ErrUnsettled)
			require.False(t, settled)
			require.True(t, l.Spoiled())
			require.NoError(t, l.Record(t.Context(), &h.Held))
		}
		require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
	})
}

// A session that ends before the statements are there again is a lost one: the handler has not failed.
func TestStatementsTakenAwayFromALostSession(t *testing.T) {
	s, l, h := held(t, 1)
	require.ErrorIs(t, l.Lend(t.Context(), func() {
		require.NoError(t, s.pgxTx(h).Conn().DeallocateAll(t.Context()))
		s.Terminate(l.pg().PID())
	}), ErrLost)
}

// Who leaves them alone pays nothing for it.
func TestStatementsLeftAlone(t *testing.T) {
	s, l, h := held(t, 1)
	var last string
	require.NoError(t, l.Lend(t.Context(), func() { s.do(s.pgxTx(h), "SELECT 'the last'") }))
	last = pgtest.One[string](s.DB, "SELECT query FROM pg_stat_activity WHERE pid = $1", l.pg().PID())
	require.Equal(t, "SELECT 'the last'", last)
}

// A session prepares what is used, when it is used, and once.
func TestPreparedWhereUsed(t *testing.T) {
	s := newStage(t)
	s.Enqueue(3, "a")
	l := s.lane()
	prepared := func() (times map[string]time.Time) {
		rows, err := l.conn.Conn().Query(t.Context(), "SELECT name, prepare_time FROM pg_prepared_statements",
			pgx.QueryExecModeExec)
		require.NoError(t, err)
		times = make(map[string]time.Time)
		var name string
		var at time.Time
		_, err = pgx.ForEachRow(rows, []any{&name, &at}, func() error { times[name] = at; return nil })
		require.NoError(t, err)
		return times
	}
	require.Equal(t, []string{stmtRestore}, slices.Collect(maps.Keys(prepared())))

	h := s.claim(l, "a")
	first := prepared()
	require.Contains(t, first, stmtClaim)
	require.NotContains(t, first, stmtClaimBatch)
	require.NotContains(t, first, "succeed")
	s.end(l, retryIn(h, 0)...)
	h = s.claim(l, "a")
	s.end(l, succeed(h)...)
	last := prepared()
	require.Contains(t, last, "succeed")
	for name, at := range first {
		require.Equal(t, at, last[name], name)
	}
}

// What was prepared behind a statement that the server refuses is prepared again, wherever the answers end.
func TestPreparedBehindAnError(t *testing.T) {
	l := newStage(t).lane()
	for _, read := range []bool{false, true} {
		p := l.pipeline(t.Context())
		p.send(stmtBegin, nil, nil)
		p.SendQueryParams(nonsense, nil, nil, nil, nil)
		p.send(stmtCommit, nil, nil)
		if read {
			require.Error(t, p.exchange())
		} else {
			require.Error(t, p.end(p.Sync()))
		}
		require.Equal(t, read, isPrepared(l.stmts[stmtBegin]))
		require.False(t, isPrepared(l.stmts[stmtCommit]))
		l.rollback(t.Context())
	}
	p := l.pipeline(t.Context())
	p.send(stmtBegin, nil, nil)
	p.send(stmtCommit, nil, nil)
	require.NoError(t, p.exchange())
}

// The library's own statements do not spoil a session.
func TestOwnStatementsSpoilNothing(t *testing.T) {
	own := newStage(t).lane().stmts
	require.Greater(t, len(own), 20)
	for _, stmt := range own {
		require.False(t, spoils(stmt.SQL), stmt.SQL)
	}
}

// plans returns those of the statements that each claim runs, in a transaction that has locked groups.
func plans(t *testing.T) *pgtest.Plans {
	s := newStage(t)
	s.limit(1000)
	s.Exec("DELETE FROM pgfifo.pauses") // without the mark: claims go on
	return &pgtest.Plans{
		DB:      s.DB,
		Connect: func() (*pgx.Conn, error) { return s.dialer(Bounds{}).Connect(t.Context()) },
		Begin:   beginSQL + "; EXECUTE lockmany ('q', '{g00007,g00008}')",
		Hot: map[string]pgtest.Hot{
			"lock":     {SQL: statement("lock"), Args: "'q', 'g00007'", Groups: 1},
			"lockmany": {SQL: statement("lock_many"), Args: "'q', '{g00007,g00008}'", Groups: 2},
			"ahead":    {SQL: statement("ahead"), Args: "'q', 'g00007', 0", Groups: 1},
			"claim":    {SQL: statement("claim"), Args: "'q', 'g00007', 0", Groups: 1},
			"batch":    {SQL: statement("claim_batch"), Args: "'q', 'g00007', 0, 11, 1000000", Groups: 1},
			"slot":     {SQL: statement("lock_slot"), Args: "'q', '{g00007,g00008}'", Groups: 2},
			"claims":   {SQL: withSlot.Replace(statement("claim")), Args: "'q', 'g00007', 0", Groups: 1},
			"batches": {
				SQL: withSlot.Replace(statement("claim_batch")), Args: "'q', 'g00007', 0, 11, 1000000", Groups: 1,
			},
			"group_slot": {SQL: statement("lock_group_slot"), Args: "'q', 'g00007'", Groups: 1},
			"next":       {SQL: statement("lock_next"), Args: "'q', 'g00007'", Groups: 1},
			"started":    {SQL: statement("claim_group_slot"), Args: "'q', 'g00007'", Groups: 1},
			"many":       {SQL: statement("claim_many"), Args: "'q', '{g00007,g00008}', '{0,0}', 16777216", Groups: 2},
		},
	}
}

func TestHotStatementsUseTheKeys(t *testing.T) {
	plans(t).UseTheKeys()
}

func TestHotStatementsReadWholeKeys(t *testing.T) {
	plans(t).ReadWholeKeys()
}

// claim.sql reads as few pages of a long backlog as of a short one, whatever the plan was made for.
func TestClaimCostsTheSameAtAnyBacklog(t *testing.T) {
	p := plans(t)
	c := p.Prepare()
	p.Crowd(100)
	p.Rows()
	short := p.Pages(c, "claim")
	p.Backlog()
	p.Exec("VACUUM ANALYZE pgfifo.jobs")
	require.LessOrEqual(t, p.Pages(c, "claim"), short+8) // the index is a level or two higher, and is read three times
}

// What puts the settings back is parsed again on a lane whose statements may be gone. It reads backslashes as they are,
// although the handler has them escape.
func TestRestoreIsParsedWithPlainBackslashes(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	d := s.dialer(Bounds{})
	d.wary.Store(true)
	d.Pool.ConnConfig.RuntimeParams["search_path"] = `"a\tb"`
	l := s.dial(d)
	h := s.claim(l, "a")
	require.NoError(t, l.Lend(t.Context(), func() {
		_, err := s.pgxTx(h).Exec(t.Context(), "SET LOCAL standard_conforming_strings TO off")
		require.NoError(t, err)
	}))
	s.end(l, settle(h, "succeed")...)
	res, err := l.pg().Exec(t.Context(), "SHOW search_path").ReadAll()
	require.NoError(t, err)
	require.Equal(t, `"a\tb"`, string(res[0].Rows[0][0]))
}
