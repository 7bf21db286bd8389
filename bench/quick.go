package main

import "time"

// The short forms: about five seconds each. Their rates mean little, their checks as much as ever.

func (d *drain) quick() { d.jobs, d.rounds, d.naive = 10_000, 2, time.Second }

func (s *backlog) quick() {
	s.sizes, s.jobs, s.rounds, s.naive, s.spread = "10000,100000", 4000, 2, time.Second, "10,100000"
}

func (s *latency) quick() { s.rates, s.measure, s.rounds = "100", 2*time.Second, 1 }

func (s *outbox) quick() { s.window, s.rounds = 300*time.Millisecond, 1 }

func (s *outage) quick() { s.groups, s.attempts, s.down = 1000, 2, 3*time.Second }

func (s *priority) quick() { s.groups, s.messages, s.wait = 100_000, 10, time.Second }

func (s *idle) quick() { s.settle, s.measure = time.Second, 3*time.Second }

func (s *delayed) quick() {
	s.groups, s.messages, s.settle, s.measure = 20_000, 100, time.Second, 3*time.Second
}

func (s *groupLimit) quick() { s.jobs, s.rounds = 200, 1 }

func (s *statements) quick() { s.jobs, s.rounds = 6000, 2 }

func (s *recovery) quick() { s.kills = 5 }

func (s *workers) quick() { s.lanes, s.measure, s.rounds = "1,10", time.Second, 1 }

func (s *skew) quick() { s.jobs, s.groups, s.measure, s.rounds = 10_000, 1000, time.Second, 1 }

func (s *lookback) quick() { s.backlog, s.rounds = 150_000, 2 }

func (s *longJob) quick() { s.measure, s.window = 4*time.Second, time.Second }

func (s *sessions) quick() {
	s.crowd, s.takes, s.crowdLanes = 500, 2*time.Second, 50
	s.long, s.measure, s.drain = 10, 3*time.Second, 2000
	s.jobs, s.rounds, s.atOnce = 4000, 1, "100"
	s.killed, s.few, s.kills = 100, 4, 1
}

func (s *queues) quick() { s.takes, s.measure = 200*time.Millisecond, 3*time.Second }

func (s *memory) quick() { s.groups = "1000,20000" }
