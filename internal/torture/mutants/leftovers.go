package mutants

// soaked has processes look at what they leave behind, and workers that start again and again in the same process.
const soaked = "-profile soak -jobs 1500 -groups 40 -lanes 4 -terminates 5 -operators 0" +
	" -stubborn 0 -severs 0 -leases 0 -bounces 6"

const leaveLane = "		if turn == nil {\n			return\n		}\n		_, err := s.work(ctx, turn)\n"

var leftovers = []Mutant{
	plant("lane-left-open", "a worker that stops leaves the connections of its lanes open",
		test("fifo", "TestRunClosesItsConnections"),
		in(seatFile, "	defer func() { _ = s.holder.Close() }()\n", ""),
		in(seatFile, "		if turn == nil {\n", "		if turn == nil && ctx.Err() == nil {\n"),
		in(seatFile, "		_, err := s.work(ctx, turn)\n", leaveLane)),
	plant("heartbeat-goes-on", "a worker that has stopped leaves a goroutine behind",
		run(soaked, "I15"),
		in("fifo/crew.go", "c.runHeartbeat(aside) })", "c.runHeartbeat(context.WithoutCancel(aside)) })")),
}
