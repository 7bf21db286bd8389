package schedule

import (
	_ "embed"
)

// The statements that find groups, each with its contract on top. They are written for the schema "pgfifo" and run in
// psql as they are; but those that look for heads have one end in common.
var (
	//go:embed sql/candidates.sql
	candidatesWalk string
	//go:embed sql/candidates_adjacent.sql
	candidatesAdjacentWalk string
	//go:embed sql/position.sql
	positionSQL string
	//go:embed sql/new.sql
	newSQL string
	//go:embed sql/due.sql
	dueSQL string
	//go:embed sql/urgent.sql
	urgentSQL string
	//go:embed sql/probe.sql
	probeWalk string
	//go:embed sql/heads.sql
	headsSQL string
	//go:embed sql/ensure.sql
	ensureSQL string
	//go:embed sql/ensure_shared.sql
	ensureSharedSQL string
	//go:embed sql/ended.sql
	endedSQL string
	//go:embed sql/released.sql
	releasedSQL string
	//go:embed sql/reclaim.sql
	reclaimSQL string
	//go:embed sql/writers.sql
	writersSQL string
	//go:embed sql/firsts.sql
	firstsWalk string
	//go:embed sql/collect_lock.sql
	collectLockSQL string
	//go:embed sql/collect.sql
	collectSQL string
	//go:embed sql/collect_rest.sql
	collectRestSQL string
)

var (
	candidatesSQL         = candidatesWalk + headsSQL
	candidatesAdjacentSQL = candidatesAdjacentWalk + headsSQL
	probeSQL              = probeWalk + headsSQL
	firstsSQL             = firstsWalk + headsSQL
)
