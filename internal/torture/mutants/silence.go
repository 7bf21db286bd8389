package mutants

// cutOff takes worker processes off the network.
const cutOff = "-jobs 1500 -groups 60 -processes 4 -lanes 6 -batch 1 -partitions 3"

// frozen stops worker processes.
const frozen = few + " -stops 1"

// thawed stops more of them, so that some of their handlers go on as former holders.
const thawed = few + " -stops 3"

// few has few processes, of which some are stopped.
const few = "-jobs 1200 -groups 40 -processes 3 -lanes 3 -batch 1"

// reading has handlers that keep rows open for longer than every timeout.
const reading = "-jobs 1500 -groups 40 -processes 3 -lanes 3 -batch 1 -reads 3 -only rows"

// endless has handlers that do not end.
const endless = contended + " -stubborn 6 -only error"

const (
	seatFile       = "fifo/seat.go"
	connectionFile = "internal/lease/connection.go"
	beatFile       = "internal/lease/heartbeat.go"
	streamFile     = "internal/lease/stream.go"
)

var silence = []Mutant{
	plant("stranded-never-given-up", "a connection that a proxy has lost is waited for, without end",
		test("fifo", "TestStrandedConnections"),
		in("internal/lease/stranded.go", "	return again\n", "	return again && false\n")),
	plant("locked-taken-for-stranded", "a connection is given up that waits for a lock",
		test("fifo", "TestLockedIsNotStranded"),
		in("internal/lease/stranded.go", "	if !idle || ", "	if !idle && false || ")),
	plant("heartbeat-off", "nobody asks whether the connection of a handler is alive",
		run(cutOff, "I3-lease", "I3").alone(),
		in(seatFile, "|| lane.Running() < s.crew", "|| lane.Running() >= 0 || lane.Running() < s.crew")),
	plant("heartbeat-gives-up", "heartbeats end when a handler takes long, so that the server ends its session",
		run(patient, "I6", "I3-lease", "I3"),
		in(seatFile, "|| lane.Running() < s.crew", "|| lane.Running().Seconds() > 1 || lane.Running() < s.crew")),
	plant("lost-lease-not-told", "a handler whose connection is lost is not told",
		run(cutOff, "I3-lease", "I3").alone(),
		in(seatFile, "			s.cancelIf(hold, err)", "			s.cancelIf(hold-1, err)")),
	plant("silence-unbounded", "a heartbeat waits for its answer for as long as it takes",
		run(cutOff, "I3-lease", "I3").alone(),
		in(beatFile, "	defer time.AfterFunc(l.bounds.Silence, func() { _ = l.cut(nil) }).Stop()\n",
			"	_ = time.Second\n")),
	plant("idle-in-transaction-unbounded", "the server keeps the group of a frozen worker",
		run(frozen, "I7", "I8"),
		in(connectionFile, `{"idle_in_transaction_session_timeout", millis(b.ServerSilence)}`,
			`{"idle_in_transaction_session_timeout", "0"}`)),
	plant("socket-unbounded",
		"the worker's socket retransmits a statement for a quarter of an hour before it notices a cut",
		test(".", "TestSilence").alone(),
		in(connectionFile, "	setUserTimeout(tcp, b.Silence)\n", "	_ = setUserTimeout\n")),
	plant("server-socket-unbounded",
		"the server does not notice that a worker's machine is gone with a reply on its way",
		test("internal/lease", "TestBoundsAreInForce"),
		in(connectionFile, `{"tcp_user_timeout", millis(b.userTimeout())}`, `{"tcp_user_timeout", "0"}`)),
	plant("killed-in-a-statement-unnoticed",
		"the server goes on with the statement of a worker that was killed, and keeps its group until the end of it",
		test(".", "TestKilledInQuery"),
		in(connectionFile, `{connectionCheck, "1000"}`,
			`{"client_connection_check_interval", "0"}`)),
	plant("killed-behind-a-pooler-unnoticed", "so it is of a worker whose lanes go through a pooler",
		test("fifo", "TestBoundsOfAPooledLane"),
		in("internal/lease/pooled.go", `_timeout", connectionCheck, "`, `_timeout", "`)),
	plant("logger-keeps-run", "a worker whose Logger blocks never ends",
		test("fifo", "TestLoggerThatBlocks"),
		in("fifo/worker.go", `	briefly(func() { log.Info("pgfifo: worker stopped", stopped...) })`,
			`	log.Info("pgfifo: worker stopped", stopped...)`)),
	plant("told-behind-the-logger", "a handler hears that its session is lost when the Logger has taken its line",
		test("fifo", "TestLoggerThatBlocks"),
		in("fifo/crew.go", "		if at := s.at.Load(); at != nil && (*at).HungUp() {\n",
			"		c.log.Warn(\"pgfifo: the session that holds groups is lost\")\n"+
				"		if at := s.at.Load(); at != nil && (*at).HungUp() {\n")),
	plant("standby-blames-groups", "groups rest because their worker's server has become a standby",
		test(".", "TestPromotedStandby"),
		in("internal/lease/refused.go", ` || inRecovery(err)`, "")),
	plant("lane-listens",
		"a job's session listens, so that the cluster's queue of notices waits for the end of the job",
		run(contended, "I9"),
		in(seatFile, "	s.holder = h\n", "	listen := \"LISTEN \" + s.crew.worker.Client.schema.Ident()\n"+
			"	if l, is := h.(*lease.Lane); is {\n"+
			"		if _, err := l.Conn().PgConn().Exec(ctx, listen).ReadAll(); err != nil {\n"+
			"			return err\n		}\n	}\n	s.holder = h\n")),
	plant("bounds-not-checked", "the worker may be told to give up later than the server does",
		test("internal/lease", "TestSessionValidate"),
		in("internal/lease/bounds.go", "	case b.noticed() >= b.userTimeout():", "	case b.noticed() < 0:")),
	plant("beat-beside-a-statement", "a heartbeat is sent while the handler is in a statement of its own",
		test("internal/lease", "TestBeatBesideStatements|TestBeatKeepsWhatIsUsed"),
		in(streamFile, "	if s.reading > 0 && s.owed > 0 || s.out.n > 0 || s.beating {\n", "	if s.beating {\n"),
		in(streamFile, "	owed := s.owed > 0\n", "	owed := false\n")),
	plant("unread-unbounded", "a handler that leaves results unread is not told before the server gives its group away",
		run(reading, "I3-lease", "I3"),
		in(beatFile, "	if time.Since(now.alive) >= l.bounds.Silence {\n",
			"	if time.Since(now.alive) >= time.Hour {\n")),
	plant("busy-is-lost", "a long statement is taken for a handler that leaves its results unread",
		test("internal/lease", "TestBeatKeepsWhatIsUsed"),
		in(streamFile, "	if s.reading > 0 && s.owed > 0 {\n", "	if s.reading > 0 && s.owed < 0 {\n")),
	plant("hang-up-unnoticed",
		"nobody looks at the socket: a session that was ended while rows are open is noticed late",
		test("fifo", "TestIdleLaneDialsAgain"),
		in(streamFile, "{ return s.socket != nil && hungUp(s.socket) }",
			"{ return s.socket == nil && hungUp(s.socket) }")),
	plant("handler-never-given-up", "a worker waits for ever for a handler that does not end",
		run(endless, "I7", "I8"), in(handleFile, "AbandonAfter; after > 0 {", "AbandonAfter; after < 0 {")),
	plant("refused-scout-does-not-rest", "a worker that is refused its looks opens one connection after another",
		test("fifo", "TestNotReadyWithoutLooks"),
		in("fifo/beside.go", "			if time.Since(began) > tuning.Wait {\n",
			"			if time.Since(began) > -tuning.Wait {\n")),
}
