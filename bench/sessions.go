package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

// sessions compares the lease of a session (fifo.Settings.SessionLease) with the default one, which is a transaction
// for each job.
type sessions struct {
	parts string

	crowd, connections, crowdLanes int
	takes                          time.Duration

	long, groups, drain int
	rate                float64
	measure             time.Duration

	jobs, rounds, lanes int
	atOnce              string

	killed, few, kills, survivors int
}

const defaultLease, sessionLease = "default lease", "session lease"

func (s *sessions) flags(f *flag.FlagSet) {
	f.StringVar(&s.parts, "parts", "crowd,long,rate,kill", "which, in this order")
	f.IntVar(&s.crowd, "crowd", 5000, "crowd: jobs at once")
	f.DurationVar(&s.takes, "takes", 30*time.Second, "crowd: how long each of them takes")
	f.IntVar(&s.connections, "connections", 20, "crowd: connections of the process, its client's pool included")
	f.IntVar(&s.crowdLanes, "crowd-lanes", 200, "crowd: lanes of the default lease, to see what memory one needs")
	f.IntVar(&s.long, "long", 50, "long: jobs that run all the time")
	f.DurationVar(&s.measure, "for", 2*time.Minute, "long: how long they run")
	f.Float64Var(&s.rate, "rate", 500, "long: arrivals of short jobs per second in a queue beside them")
	f.IntVar(&s.groups, "groups", 1000, "long, rate: message groups of the short jobs")
	f.IntVar(&s.drain, "drain", 40_000, "long: short jobs that are there at once at the end")
	f.IntVar(&s.jobs, "jobs", 60_000, "rate: jobs that do nothing, for each system in all rounds together")
	f.IntVar(&s.rounds, "rounds", 3, "rate: rounds")
	f.IntVar(&s.lanes, "lanes", 16, "long, rate: jobs at once with the default lease; lanes with the other")
	f.StringVar(&s.atOnce, "at-once", "16,100,400", "rate: jobs at once with the session lease")
	f.IntVar(&s.killed, "killed", 1000, "kill: jobs that run in the process that is killed")
	f.IntVar(&s.few, "few", 50, "kill: the same with the default lease: each is a connection")
	f.IntVar(&s.kills, "kills", 5, "kill: how often")
	f.IntVar(&s.survivors, "survivors", 2, "kill: other processes, with room for these jobs together")
}

func (s *sessions) run(ctx context.Context, b *bench) error {
	if s.crowd < 1 || s.takes <= 0 || s.connections < 14 || s.crowdLanes < 1 {
		return errors.New("-crowd, -takes and -crowd-lanes must be over 0, -connections 14 or more")
	}
	if s.long < 1 || s.groups < 1 || s.drain < 1 || s.rate <= 0 || s.measure <= 0 || s.lanes < 1 {
		return errors.New("-long, -groups, -drain, -rate, -for and -lanes must be over 0")
	}
	if s.jobs < 1 || s.rounds < 1 || s.killed < 1 || s.kills < 1 || s.survivors < 1 || s.few < 1 {
		return errors.New("-jobs, -rounds, -killed, -few, -kills and -survivors must be over 0")
	}
	chosen := strings.Split(s.parts, ",")
	parts := map[string]func(context.Context, *bench) error{
		"crowd": s.gather, "long": s.besideLong, "rate": s.noops, "kill": s.kill,
	}
	for _, name := range chosen {
		if parts[name] == nil {
			return fmt.Errorf("no part %q: crowd, long, rate or kill", name)
		}
	}
	for _, name := range []string{"crowd", "long", "rate", "kill"} {
		if !slices.Contains(chosen, name) {
			continue
		}
		if err := parts[name](ctx, b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
