package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
)

// A finding is a claim about the data, and how many rows contradict it.
type finding struct {
	claim string
	wrong int64
}

// claims are proved from transfers and ledger alone, after the workers have ended. Each query counts contradictions.
var claims = []struct{ claim, sql string }{
	{"every transfer was applied to both of its accounts", `
		SELECT count(*) FROM expected e LEFT JOIN ledger l USING (account, transfer_id, amount) WHERE l.id IS NULL`},
	{"nothing was applied twice", `
		SELECT count(*) - count(DISTINCT (account, transfer_id)) FROM ledger`},
	{"nothing was applied that nobody asked for", `
		SELECT count(*) FROM ledger l LEFT JOIN expected e USING (account, transfer_id, amount)
		WHERE e.transfer_id IS NULL`},
	{"each account's entries were written in the order of its transfers", `
		SELECT count(*)
		FROM (SELECT transfer_id, lag(transfer_id) OVER (PARTITION BY account ORDER BY id) AS before FROM ledger) l
		WHERE l.transfer_id <= l.before`},
	{"each account's entries are numbered without a gap", `
		SELECT count(*)
		FROM (SELECT seq, row_number() OVER (PARTITION BY account ORDER BY id) AS n FROM ledger) l
		WHERE l.seq <> l.n`},
	{"each balance is the sum of the account's transfers up to there", `
		SELECT count(*)
		FROM ledger l
		JOIN (SELECT account, transfer_id, sum(amount) OVER (PARTITION BY account ORDER BY transfer_id) AS balance
		      FROM expected) e USING (account, transfer_id)
		WHERE l.balance <> e.balance`},
	{"no money was made or lost: the last balances add up to zero", `
		SELECT abs(coalesce(sum(balance), 0))::bigint
		FROM (SELECT DISTINCT ON (account) balance FROM ledger ORDER BY account, id DESC) l`},
}

// prove checks the claims, and that the queue agrees: nothing is left in it, and the attempts that were lost with a
// worker, which held so many groups, were counted.
func prove(ctx context.Context, pool *pgxpool.Pool, client *fifo.Client, held int, lost int64) ([]finding, error) {
	var findings []finding
	for _, c := range claims {
		f := finding{claim: c.claim}
		if err := pool.QueryRow(ctx, c.sql).Scan(&f.wrong); err != nil {
			return nil, err
		}
		findings = append(findings, f)
	}

	jobs, err := client.Queue(queue).Jobs(ctx, fifo.Page{})
	if err != nil {
		return nil, err
	}
	dead, err := client.Queue(queue).DeadLetters(ctx, fifo.Letters{})
	if err != nil {
		return nil, err
	}
	findings = append(findings, finding{"no job and no dead letter is left", int64(len(jobs) + len(dead))})

	var repeated int64 // what the handlers saw, against what the workers counted
	err = pool.QueryRow(ctx, "SELECT coalesce(sum(attempt - 1), 0) FROM ledger").Scan(&repeated)
	if err != nil {
		return nil, err
	}
	wrong := abs(repeated - lost)
	if lost == 0 && held > 3 { // between the look and the kill a job may end, but not that many with none to follow
		wrong = int64(held)
	}
	return append(findings, finding{
		"each attempt that the killed worker lost was counted, and its job ran again", wrong,
	}), nil
}

func abs(n int64) int64 { return max(n, -n) }
