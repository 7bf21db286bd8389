package mutants

// cutOff takes worker processes off the network.
var cutOff = []string{
	"-jobs", "1500", "-groups", "60", "-processes", "4", "-lanes", "6", "-batch", "1", "-partitions", "3",
}

// frozen stops worker processes.
var frozen = []string{"-jobs", "1200", "-groups", "40", "-processes", "3", "-lanes", "3", "-batch", "1", "-stops", "1"}

// thawed stops more of them, so that some of their handlers go on as former holders.
var thawed = append(frozen[:len(frozen)-1:len(frozen)-1], "3")

// reading has handlers that keep rows open for longer than every timeout.
var reading = []string{
	"-jobs", "1500", "-groups", "40", "-processes", "3", "-lanes", "3", "-batch", "1", "-reads", "3",
	"-only", "rows,bunrows",
}

// endless has handlers that do not end.
var endless = append(contended[:len(contended):len(contended)], "-stubborn", "6", "-only", "error")

const (
	seatFile       = "fifo/seat.go"
	connectionFile = "internal/lease/connection.go"
	beatFile       = "internal/lease/heartbeat.go"
	streamFile     = "internal/lease/stream.go"
)

var silence = []Mutant{
	{
		Name:   "heartbeat-off",
		Breaks: "nobody asks whether the connection of a handler is alive",
		Edits: []Edit{{
			seatFile, "	if lane.Running() <",
			"	if lane.Running() >= 0 || lane.Running() <",
		}},
		Torture: cutOff, By: []string{"I3-lease", "I3"}, Alone: true,
	},
	{
		Name:   "heartbeat-gives-up",
		Breaks: "heartbeats end when a handler takes long, so that the server ends its session",
		Edits: []Edit{{
			seatFile, "	if lane.Running() <",
			"	if lane.Running().Seconds() > 1 || lane.Running() <",
		}},
		Torture: patient, By: []string{"I6", "I3-lease", "I3"},
	},
	{
		Name:    "lost-lease-not-told",
		Breaks:  "a handler whose connection is lost is not told",
		Edits:   []Edit{{seatFile, "			s.cancel(err)\n", "			_ = err\n"}},
		Torture: cutOff, By: []string{"I3-lease", "I3"}, Alone: true,
	},
	{
		Name:   "silence-unbounded",
		Breaks: "a heartbeat waits for its answer for as long as it takes",
		Edits: []Edit{{
			beatFile, "	defer time.AfterFunc(l.silent, func() { _ = l.cut(nil) }).Stop()\n", "	_ = time.Second\n",
		}},
		Torture: cutOff, By: []string{"I3-lease", "I3"}, Alone: true,
	},
	{
		Name:   "idle-in-transaction-unbounded",
		Breaks: "the server keeps the group of a frozen worker",
		Edits: []Edit{{
			connectionFile, `{"idle_in_transaction_session_timeout", millis(b.ServerSilence)}`,
			`{"idle_in_transaction_session_timeout", "0"}`,
		}},
		Torture: frozen, By: []string{"I7", "I8"},
	},
	{
		Name:   "socket-unbounded",
		Breaks: "the worker's socket retransmits a statement for a quarter of an hour before it notices a cut",
		Edits:  []Edit{{connectionFile, "	setUserTimeout(tcp, b.Silence)\n", "	_ = setUserTimeout\n"}},
		Test:   Test{".", "TestSilence"}, Alone: true,
	},
	{
		Name:   "server-socket-unbounded",
		Breaks: "the server does not notice that a worker's machine is gone with a reply on its way",
		Edits: []Edit{{
			connectionFile, `{"tcp_user_timeout", millis(b.userTimeout())}`, `{"tcp_user_timeout", "0"}`,
		}},
		Test: Test{"internal/lease", "TestBoundsAreInForce"},
	},
	{
		Name: "killed-in-a-statement-unnoticed",
		Breaks: "the server goes on with the statement of a worker that was killed, " +
			"and keeps its group until the end of it",
		Edits: []Edit{{
			connectionFile, `{"client_connection_check_interval", "1000"}`, `{"client_connection_check_interval", "0"}`,
		}},
		Test: Test{".", "TestKilledInQuery"},
	},
	{
		Name:   "lane-listens",
		Breaks: "a job's session listens, so that the cluster's queue of notices waits for the end of the job",
		Edits: []Edit{{
			seatFile, "	s.lane = lane\n",
			"	listen := \"LISTEN \" + s.crew.worker.Client.schema.Ident()\n" +
				"	if l, is := lane.(*lease.Lane); is {\n" +
				"		if _, err := l.Conn().PgConn().Exec(ctx, listen).ReadAll(); err != nil {\n" +
				"			return err\n		}\n	}\n	s.lane = lane\n",
		}},
		Torture: contended, By: []string{"I9"},
	},
	{
		Name:   "bounds-not-checked",
		Breaks: "the worker may be told to give up later than the server does",
		Edits: []Edit{{
			"internal/lease/bounds.go", "	case b.noticed() >= b.userTimeout():", "	case b.noticed() < 0:",
		}},
		Test: Test{"internal/lease", "TestSessionValidate"},
	},
	{
		Name:   "beat-beside-a-statement",
		Breaks: "a heartbeat is sent while the handler is in a statement of its own",
		Edits: []Edit{
			{streamFile, "	if s.reading > 0 && s.owed > 0 || s.out.n > 0 || s.beating {\n", "	if s.beating {\n"},
			{streamFile, "	owed := s.owed > 0\n", "	owed := false\n"},
		},
		Test: Test{"internal/lease", "TestBeatBesideStatements|TestBeatKeepsWhatIsUsed"},
	},
	{
		Name:   "unread-unbounded",
		Breaks: "a handler that leaves results unread is not told before the server gives its group away",
		Edits: []Edit{{
			beatFile, "	if time.Since(now.alive) >= l.silent {\n", "	if time.Since(now.alive) >= time.Hour {\n",
		}},
		Torture: reading, By: []string{"I3-lease", "I3"},
	},
	{
		Name:   "busy-is-lost",
		Breaks: "a long statement is taken for a handler that leaves its results unread",
		Edits: []Edit{
			{streamFile, "	if s.reading > 0 && s.owed > 0 {\n", "	if s.reading > 0 && s.owed < 0 {\n"},
		},
		Test: Test{"internal/lease", "TestBeatKeepsWhatIsUsed"},
	},
	{
		Name:   "hang-up-unnoticed",
		Breaks: "nobody looks at the socket: a session that was ended while rows are open is noticed late",
		Edits: []Edit{{
			streamFile, "{ return s.socket != nil && hungUp(s.socket) }",
			"{ return s.socket == nil && hungUp(s.socket) }",
		}},
		Test: Test{"fifo", "TestIdleLaneDialsAgain"},
	},
	{
		Name:    "handler-never-given-up",
		Breaks:  "a worker waits for ever for a handler that does not end",
		Edits:   []Edit{{"fifo/overdue.go", "AbandonAfter; after > 0 {", "AbandonAfter; after < 0 {"}},
		Torture: endless, By: []string{"I7", "I8"},
	},
	{
		Name:   "refused-scout-does-not-rest",
		Breaks: "a worker that is refused its looks opens one connection after another",
		Edits: []Edit{{
			"fifo/crew.go", "			if time.Since(began) > tuning.Wait {\n", "			if !began.IsZero() {\n",
		}},
		Test: Test{"fifo", "TestNotReadyWithoutLooks"},
	},
}
