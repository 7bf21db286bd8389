package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// barePgbench has pgbench send the statements of a lane, with one client. Before PostgreSQL 16 its pipelines know no
// prepared statements, and in none can a command use what another returned: so what goes in one round trip is one text
// of EXECUTEs, and a job is deleted by its key, where a lane knows the place of its row.
type barePgbench struct {
	bare
	program string
}

const (
	// bareRun is how many jobs one of pgbench's transactions is, at most: it wants each to end as it began.
	bareRun = 100

	barePrepare = `\if :id = :before
PREPARE claim (text, text, bigint) AS
%s;
PREPARE succeed (text, text, bigint) AS DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3;
\endif
`
	bareBegin = `BEGIN\; EXECUTE claim('%[1]s', '%[2]s', :id);
\set id :id + 1
`
	bareNext = `EXECUTE succeed('%[1]s', '%[2]s', :id)\; COMMIT AND CHAIN\; EXECUTE claim('%[1]s', '%[2]s', :id);
\set id :id + 1
`
	bareEnd = `EXECUTE succeed('%[1]s', '%[2]s', :id)\; COMMIT;
`
)

// script is one transaction of pgbench.
func (r *barePgbench) script(jobs int) string {
	steps := bareBegin + strings.Repeat(bareNext, jobs-1) + bareEnd
	return r.qualify(fmt.Sprintf(barePrepare, strings.TrimSpace(bareClaim)) + fmt.Sprintf(steps, queue, groupID(0)))
}

func (r *barePgbench) work(ctx context.Context, n int) (took time.Duration, err error) {
	jobs := min(n, bareRun)
	runs := n / jobs
	before, err := r.fill(ctx, jobs*runs)
	if err != nil {
		return 0, err
	}
	first := strconv.FormatInt(before, 10)
	tps, err := runPgbench(ctx, r.db, r.program, r.script(jobs), "-M", "simple", "-c", "1", "-t", strconv.Itoa(runs),
		"-D", "id="+first, "-D", "before="+first)
	if err != nil {
		return 0, err
	}
	return time.Duration(float64(n) / (tps * float64(jobs)) * float64(time.Second)), r.empty(ctx)
}
