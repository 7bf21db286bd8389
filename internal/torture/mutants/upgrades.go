package mutants

var upgrades = []Mutant{
	plant("older-release-refuses-newer-schema",
		"a process that starts again after the next release has migrated does not work",
		test("migrations", "TestNewerSchemaInTheWindow"),
		in("migrations/check.go", "	case s.servesFrom > latest:\n", "	case s.version > latest:\n")),
	plant("older-grant-takes-rights",
		"an older release that starts again takes away the rights that the newer one gave",
		test("migrations", "TestNewerSchemaInTheWindow"),
		in("migrations/roles.go", "if err != nil || s.version > Latest {", "if err != nil {")),
	plant("migrated-under-another-name",
		"on a connection whose encoding is not UTF8, the schema that is made has not the name that was given",
		test("migrations", "TestClientEncoding"),
		in("migrations/check.go", "conforming.Settings(\"\", client)", "conforming.Settings(\"\", \"\")")),
	plant("down-drops-late-jobs", "a job that is committed while Down waits for its table goes with it",
		test("migrations", "TestDownSeesLateJobs"),
		in("migrations/sql/0001_init.down.sql",
			"ALTER TABLE pgfifo.jobs ADD CONSTRAINT \"empty it before it is dropped\" CHECK (false);\n", "")),
}
