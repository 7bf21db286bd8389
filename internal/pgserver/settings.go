package pgserver

import (
	"maps"
	"slices"
)

// settings returns the settings of a server that this package starts, without
// where it listens: the defaults, overridden by the caller's.
func (o *Options) settings() map[string]string {
	durability := "off"
	if o.Durable {
		durability = "on"
	}
	set := map[string]string{
		"fsync":              durability,
		"synchronous_commit": durability,
		"full_page_writes":   durability,
		"max_connections":    "300",
		// All that is logged goes to stderr, which is kept for error texts.
		"logging_collector": "off",
		"log_destination":   "stderr",
	}
	maps.Copy(set, o.Settings)
	return set
}

// args returns settings as the server's command line: -c name=value, sorted so
// that a command is the same at each start.
func args(set map[string]string) []string {
	list := make([]string, 0, 2*len(set))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, "-c", name+"="+set[name])
	}
	return list
}
