package lease

import "strings"

// plannerSettings hold the plans of the library's own statements to the one shape they are written for: index probes.
// A queue's tables are empty at one moment and have a million rows at the next, so statistics mislead: a plan made
// for an empty table would read the whole backlog at every claim. A handler that takes the transaction gets the
// defaults back (see handlerSettings).
var plannerSettings = [][2]string{
	{"plan_cache_mode", "force_generic_plan"},
	{"enable_seqscan", "off"},
	{"enable_bitmapscan", "off"},
	{"jit", "off"},
}

// handlerSettings gives a handler the session's own planner settings until the end of the transaction.
var handlerSettings = func() string {
	sql := ""
	for _, s := range plannerSettings {
		sql += "; SET LOCAL " + s[0] + " TO DEFAULT"
	}
	return sql
}()

// LocalPlannerSettings puts them in force until the end of a transaction on another connection than the worker's own.
var LocalPlannerSettings = setLocal(plannerSettings)

// setLocal returns a statement that makes settings until the end of a transaction.
func setLocal(settings [][2]string) string { return setAll(settings, "true") }

// setAll returns a statement that makes settings, until the end of a transaction if local is true.
func setAll(settings [][2]string, local string) string {
	calls := make([]string, len(settings))
	for i, s := range settings {
		calls[i] = "pg_catalog.set_config('" + s[0] + "', '" + s[1] + "', " + local + ")"
	}
	return "SELECT " + strings.Join(calls, ", ")
}
