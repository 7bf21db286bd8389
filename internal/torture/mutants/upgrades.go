package mutants

var upgrades = []Mutant{
	{
		Name:   "older-release-refuses-newer-schema",
		Breaks: "a process that starts again after the next release has migrated does not work",
		Edits:  []Edit{{"migrations/check.go", "	case s.servesFrom > latest:\n", "	case s.version > latest:\n"}},
		Test:   Test{"migrations", "TestNewerSchemaInTheWindow"},
	},
	{
		Name:   "older-grant-takes-rights",
		Breaks: "an older release that starts again takes away the rights that the newer one gave",
		Edits:  []Edit{{"migrations/roles.go", "if err != nil || s.version > Latest {", "if err != nil {"}},
		Test:   Test{"migrations", "TestNewerSchemaInTheWindow"},
	},
	{
		Name:   "down-drops-late-jobs",
		Breaks: "a job that is committed while Down waits for its table goes with it",
		Edits: []Edit{{
			"migrations/sql/0001_init.down.sql",
			"ALTER TABLE pgfifo.jobs ADD CONSTRAINT \"empty it before it is dropped\" CHECK (false);\n", "",
		}},
		Test: Test{"migrations", "TestDownSeesLateJobs"},
	},
}
