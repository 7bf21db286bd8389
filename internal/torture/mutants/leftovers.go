package mutants

// soaked has processes look at what they leave behind, and workers that start again and again in the same process.
var soaked = []string{
	"-profile", "soak", "-jobs", "1500", "-groups", "40", "-lanes", "4", "-terminates", "5", "-operators", "0",
	"-stubborn", "0", "-severs", "0", "-leases", "0", "-bounces", "6",
}

const leaveLane = "		if turn == nil {\n			return\n		}\n		_, err := s.work(ctx, turn)\n"

var leftovers = []Mutant{
	{
		Name:   "lane-left-open",
		Breaks: "a worker that stops leaves the connections of its lanes open",
		Edits: []Edit{
			{seatFile, "	defer func() { _ = s.lane.Close() }()\n", ""},
			{seatFile, "		if turn == nil {\n", "		if turn == nil && ctx.Err() == nil {\n"},
			{seatFile, "		_, err := s.work(ctx, turn)\n", leaveLane},
		},
		Torture: soaked, By: []string{"I15"},
	},
	{
		Name:   "heartbeat-goes-on",
		Breaks: "a worker that has stopped leaves a goroutine behind",
		Edits: []Edit{{
			"fifo/crew.go", "c.runHeartbeat(aside) })", "c.runHeartbeat(context.WithoutCancel(aside)) })",
		}},
		Torture: soaked, By: []string{"I15"},
	},
}
