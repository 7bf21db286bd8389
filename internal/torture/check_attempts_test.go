package torture

import (
	"testing"
)

// Attempts and dead letters: I6.
func TestBrokenAttemptHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"a job is given up too early":        {"I6", func(b *book) { b.dead[0].do = doNap }},
		"a poison job is given up too early": {"I6", func(b *book) { b.dead[0].do = doKill }},
		"a lost attempt is not counted": {"I6", func(b *book) {
			b.warm().lostAfter(1500, 1)
		}},
		"a lost attempt is not counted, the first of its process": {"I6", func(b *book) { b.lost(1) }},
		"a lost attempt is not counted, which could not be marked": {"", func(b *book) {
			b.event(2, evTrouble, 0, 0, 0, 0, `level=WARN msg="pgfifo: attempt not marked"`).lost(1)
		}},
		"a lost attempt is not counted, and an operator had it locked": {"", func(b *book) { b.warm().looked("g1") }},
		"a lost attempt is not counted, and an operator had another one locked": {"I6", func(b *book) {
			b.warm().looked("g11")
		}},
		"a lost attempt is not counted, and another worker's session ended": {"", func(b *book) {
			b.warm().endedBeside("w1")
		}},
		"a lost attempt is not counted, and a session ended of what is no worker": {"I6", func(b *book) {
			b.warm().endedBeside("p1")
		}},
		"a lost attempt is not counted, the first of its process, and another worker's session ended": {
			"I6", func(b *book) { b.endedBeside("w1") },
		},
		"a lost attempt is not counted, by bad luck":                    {"", func(b *book) { b.warm(); b.lost(1) }},
		"a lost attempt is not counted, and a lower id became the head": {"", func(b *book) { b.warm().lower(true) }},
		"a lost attempt is not counted, and a lower id ran before": {"I6", func(b *book) {
			b.warm().lower(false)
		}},
		"a lost attempt is not counted, and evidence was taken away": {"", func(b *book) {
			b.warm().send(10, 10, 1, resOK).starts(2, 10, 1, 1).later(1500)
			b.mark(faultKill, "w3", 0).mark(faultVacuum, "", 0).done(0, 10, 1, 1)
		}},
		"a lost attempt is not counted, and evidence was taken away before": {"I6", func(b *book) {
			b.mark(faultVacuum, "", 0).warm().lostAfter(1500, 1)
		}},
		"a second lost attempt is not counted, and evidence was taken away": {"I6", func(b *book) {
			b.warm().send(10, 10, 1, resOK).run(0, 10, 1, 1, "error", "retried")
			b.starts(2, 10, 1, 2).mark(faultKill, "w3", 0).mark(faultVacuum, "", 0).done(0, 10, 1, 2)
		}},
		"a batch dies, and its head is charged": {"", func(b *book) { b.batchDies(2, 1, 1) }},
		"a batch dies, and nobody is charged":   {"I6", func(b *book) { b.batchDies(1, 1, 1) }},
		"a batch dies, and all are charged":     {"I6", func(b *book) { b.batchDies(2, 2, 2) }},
		"a lost attempt is counted":             {"", func(b *book) { b.lost(2) }},
		"a lost attempt is counted twice":       {"I6", func(b *book) { b.lost(4) }},
		"a lost attempt is not counted because the server lost it": {"", func(b *book) {
			b.warm().mark(faultRestart, "", 0)
			b.marks[len(b.marks)-1].at += 4 * ms
			b.lost(1).mark("resumed", "", 0)
		}},
		"a claim that was sent by a process that died just before is counted": {"", func(b *book) {
			b.kill().later(100).send(10, 10, 1, resOK).done(0, 10, 1, 2)
		}},
		"an attempt is counted that nobody has made": {"I6", func(b *book) {
			b.kill().later(2100).send(10, 10, 1, resOK).done(0, 10, 1, 2)
		}},
		"a failed attempt is not counted": {"I6", func(b *book) {
			b.send(10, 10, 1, resOK).run(0, 10, 1, 1, "error", "retried").done(0, 10, 1, 1)
		}},
		"a dead letter has more attempts than ran": {"I6", func(b *book) {
			b.dead[0].attempts, b.dead[0].failures = 2, 2
		}},
		"a dead letter has no history":                  {"I6", func(b *book) { b.dead[0].failures = 0 }},
		"a poison job has three lives":                  {"", func(b *book) { b.poison(3) }},
		"a poison job has four lives":                   {"I6", func(b *book) { b.poison(4) }},
		"a poison job has five lives":                   {"I6", func(b *book) { b.poison(5) }},
		"a job that kills is tried again at once":       {"I6", func(b *book) { b.poisonSoon(1, 20) }},
		"a job that kills again is tried again at once": {"I6", func(b *book) { b.poisonSoon(2, 20) }},
		"a job was lost before in the process that it kills": {"", func(b *book) {
			b.send(10, 10, 1, resOK).starts(2, 10, 1, 1).mark(faultReset, "w3", 0).event(2, evLost, 1, 10, 1, 0, "-")
			b.ends(2, 10, 1, 1, "error", "unknown").exit(2, 10, 1, 2).later(poisonWait.Milliseconds())
			b.exit(3, 10, 1, 3).bury(1, 10, lives)
			b.dead[len(b.dead)-1].do = doKill
		}},
		"an innocent dies beside a job that kills, and again": {"I6", func(b *book) { b.besidePoison(1) }},
		"an innocent dies beside a job that kills, of a session's group, and again": {
			"", func(b *book) { b.besidePoison(7) },
		},
		"the same, and the first time that job was behind the head of a batch": {"", func(b *book) {
			b.behindPoison()
		}},
		"one that did not begin is charged, beside one that left a statement under way": {"", func(b *book) {
			b.beside(9, 19)
		}},
		"one that did not begin is charged, and another queue's left a statement under way": {"I6", func(b *book) {
			b.beside(1, 19)
		}},
		"a batch is undone by another group's job, and its worker is killed before it says so": {"", func(b *book) {
			b.undoneBeside(9, 19)
		}},
		"a batch is undone by its last job, and its worker is killed before it says so": {"", func(b *book) {
			b.undoneBeside(3, 3)
		}},
		"a job is not charged, and another queue's left a statement under way before its worker was killed": {
			"I6", func(b *book) { b.undoneBeside(9, 1) },
		},
		"a job is not charged, and another group's left a statement under way before its worker was killed": {
			"I6", func(b *book) { b.undoneBeside(3, 23) },
		},
		"an operator's rollback is charged": {"I6", func(b *book) {
			b.send(10, 10, 1, resOK).mark(faultOperator, "", 0).done(0, 10, 1, 2)
		}},
	})
}
