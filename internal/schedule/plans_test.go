package schedule

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// plans returns those of the statements that find groups.
func plans(t *testing.T) *pgtest.Plans {
	s := newStage(t)
	return &pgtest.Plans{
		DB:      s.DB,
		Connect: func() (*pgx.Conn, error) { return s.dialer().Connect(t.Context()) },
		Begin:   "BEGIN",
		Hot: map[string]pgtest.Hot{
			"candidates": {SQL: candidatesSQL, Args: "'q', '', 100", Groups: 100},
			"adjacent":   {SQL: candidatesAdjacentSQL, Args: "'q', '', 100", Groups: 100},
			"new": {
				SQL: statement("new"), Groups: 100, Index: "jobs by jobs_new",
				Args: "'{q,r}', 50, 150, 'infinity'",
			},
			"due": {
				SQL: statement("due"), Groups: 1, Index: "jobs by jobs_due",
				Args: "'{q,r}', now() - interval '1 second', 0, now() - interval '2 seconds', " +
					"now() + interval '1 second', 100",
			},
			"urgent": {
				SQL: statement("urgent"), Groups: 100, Index: "jobs by jobs_urgent",
				Args: "'{q,r}', '{q}', '{9}', '{-infinity}', '{\"\"}', 100",
			},
			"groups": {SQL: groupsSQL, Args: "'{q,q}', '{g00007,g00008}'", Groups: 2},
			"released": {
				SQL: statement("released"), Args: "'{q,q}', '{g00007,g00008}', '{5,6}'", Groups: 2,
			},
			"firsts": {SQL: firstsSQL, Args: "'', 100", Groups: 1},
		},
	}
}

func TestHotStatementsUseTheKeys(t *testing.T) {
	plans(t).UseTheKeys()
}

func TestHotStatementsReadWholeKeys(t *testing.T) {
	plans(t).ReadWholeKeys()
}
