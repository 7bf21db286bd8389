package lease

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// plans returns those of the statements that each claim runs, in a transaction that has locked groups.
func plans(t *testing.T) *pgtest.Plans {
	s := newStage(t)
	s.Exec("INSERT INTO pgfifo.queues VALUES ('q', 1, false, 1000)") // without the mark: claims go on
	s.Exec("INSERT INTO pgfifo.slots (queue, n) SELECT 'q', n FROM generate_series(1, 1000) n")
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
			"shared":  {SQL: statement("lock_shared"), Args: "'q', 'g00007'", Groups: 1},
			"next":    {SQL: statement("lock_next"), Args: "'q', 'g00007'", Groups: 1},
			"started": {SQL: statement("claim_shared"), Args: "'q', 'g00007'", Groups: 1},
			"many":    {SQL: statement("claim_many"), Args: "'q', '{g00007,g00008}', '{0,0}', 16777216", Groups: 2},
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
