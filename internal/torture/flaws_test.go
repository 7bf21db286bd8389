package torture

import (
	"cmp"
	"slices"
)

// overlap has a job of w1 that goes on while w2 begins with it anew. The functions are called before and after that.
func (b *book) overlap(before func(), after ...func()) {
	b.running()
	before()
	b.done(1, 10, 1, 2)
	for _, f := range after {
		f()
	}
	b.ends(0, 10, 1, 1, "error", "returned")
}

// alone has a job that goes on while something happens.
func (b *book) alone(meanwhile func()) {
	b.running()
	meanwhile()
	b.comes(0, 10, 1, 1, "ok", "succeeded")
}

// again has the attempt of alone be lost, and the job run again.
func (b *book) again() {
	b.events[len(b.events)-1].word = "unknown"
	b.effects = b.effects[:len(b.effects)-1]
	b.done(1, 10, 1, 2)
}

// tokens has an attempt that asks for a token.
func (b *book) tokens(job int64, attempt int32, token int64, word, outcome string) *book {
	b.starts(0, job, 1, attempt).event(0, evFence, 1, job, attempt, token, "-")
	return b.ends(0, job, 1, attempt, word, outcome)
}

func (b *book) two() *book { return b.twoIn(1) }

func (b *book) twoIn(group int32) *book {
	return b.send(10, 10, group, resOK).send(11, 11, group, resOK)
}

// takenBack has jobs 10 and 11 done, and then, when the server has crashed, again in the given order.
func (b *book) takenBack(group int32, first, second int64) {
	b.twoIn(group)
	for _, id := range []int64{10, 11} {
		b.run(0, id, group, 1, "ok", "succeeded")
	}
	b.restart().later(5000)
	for _, id := range []int64{first, second} {
		b.done(0, id, group, 2)
	}
}

// passedOver has job 11 run before job 10 is committed, and then job 12, whose enqueue begins when that of job 10 has
// returned, before job 10.
func (b *book) passedOver() {
	b.two()
	late := &b.enqueues[len(b.enqueues)-2]
	b.run(0, 11, 1, 1, "ok", "succeeded")
	late.back = b.now * ms
	b.later(1).send(12, 12, 1, resOK).run(0, 12, 1, 1, "ok", "succeeded").run(0, 10, 1, 1, "ok", "succeeded")
	for _, job := range []int64{11, 12, 10} {
		b.effect(1, job, 1)
	}
}

// spawn has a job that enqueues another one in its only attempt.
func (b *book) spawn(word string, exists bool) {
	b.send(10, 10, 1, resOK).starts(0, 10, 1, 1).event(0, evSpawn, 1, 10, 1, 10+children, "20")
	b.event(0, evEnd, 1, 10, 1, 0, word)
	if word == "ok" {
		b.event(0, evSettled, 1, 10, 1, 0, "succeeded").effect(1, 10, 1)
	} else {
		b.event(0, evSettled, 1, 10, 1, 0, "buried").bury(1, 10, 1)
	}
	if exists {
		b.doneAs(0, 20, 2, 10+children)
	}
}

// lost has a job whose worker is killed, and whose next attempt has that number.
func (b *book) lost(next int32) *book { return b.lostAfter(0, next) }

// lostAfter is lost, with so many milliseconds from the start to the death.
func (b *book) lostAfter(ms int64, next int32) *book {
	return b.send(10, 10, 1, resOK).starts(2, 10, 1, 1).later(ms).kill().done(0, 10, 1, next)
}

// endedBeside has a job whose worker is killed, which is not counted, and a session ended before its next attempt.
func (b *book) endedBeside(proc string) {
	b.send(10, 10, 1, resOK).starts(2, 10, 1, 1).later(1500).kill().later(1)
	b.mark(faultTerminate, proc, 77).done(0, 10, 1, 1)
}

// lower has a job whose worker is killed, which is not counted, and one with a lower id run: between its two attempts,
// because it was committed late, or before.
func (b *book) lower(between bool) {
	b.send(9, 9, 1, resOK).send(10, 10, 1, resOK)
	if !between {
		b.run(0, 9, 1, 1, "ok", "succeeded")
	}
	b.starts(2, 10, 1, 1).later(1500).kill()
	if between {
		b.enqueues[len(b.enqueues)-2].back = b.now * ms
		b.later(1).run(0, 9, 1, 1, "ok", "succeeded")
	}
	b.run(0, 10, 1, 1, "ok", "succeeded").effect(1, 9, 1).effect(1, 10, 1)
}

// killedWhileCut has a process cut off so many milliseconds after its start, and killed. Its sessions last.
func (b *book) killedWhileCut(after int64) {
	b.mark("spawn", "w3", 0).later(after).mark("cut", "w3", 0).kill().later(16_000).mark("gone", "w3", 0)
}

// warm has the process that will be killed run as many jobs before as are marked.
func (b *book) warm() *book { return b.warmIn(2) }

func (b *book) warmIn(proc int32) *book {
	for id := int64(100); id < 100+firstTurns; id++ {
		b.send(id, id, 20, resOK).done(proc, id, 20, 1)
	}
	return b
}

// batchDies has a batch of three jobs die, whose next attempts have those numbers.
func (b *book) batchDies(next ...int32) {
	const group = 3 // of queueEach
	for i := range int64(3) {
		b.send(10+i, 10+i, group, resOK)
	}
	for i := range int64(3) {
		b.starts(2, 10+i, group, 1).event(2, evTx, group, 10+i, 1, 71, "-").event(2, evEnd, group, 10+i, 1, 0, "ok")
	}
	b.mark(faultKill, "w3", 0)
	for i, attempt := range next {
		b.done(0, 10+int64(i), group, attempt)
	}
}

// beside has a job of one group return while a statement is under way, which fails, and one of the other group charged
// that has not begun.
func (b *book) beside(group, other int32) {
	b.send(10, 10, group, resOK).send(11, 11, other, resOK).run(2, 10, group, 1, "error", "retried")
	b.events[len(b.events)-4].word = doInFlight
	b.done(0, 10, group, 2).done(0, 11, other, 2)
}

// undoneBeside has a job's handler return nil, and then that of a job of the other group leave a statement under way,
// which undoes a batch of both, and the worker killed before it says so. The first job's attempt is not counted.
func (b *book) undoneBeside(group, other int32) {
	b.warm().send(10, 10, group, resOK).send(11, 11, other, resOK).run(2, 10, group, 1, "error", "retried")
	b.starts(2, 10, group, 2).event(2, evEnd, group, 10, 2, 0, "ok")
	b.event(2, evStart, other, 11, 1, 11, doInFlight).event(2, evEnd, other, 11, 1, 0, "error")
	b.mark(faultKill, "w3", 0).done(0, 10, group, 2).done(0, 11, other, 2)
}

// poison has a job that kills so many processes, and is a dead letter then.
func (b *book) poison(deaths int) { b.poisonIn(1, deaths) }

func (b *book) poisonIn(group int32, deaths int) {
	b.procs = append(b.procs, "w5", "w6", "w7")
	b.send(10, 10, group, resOK)
	for i := range deaths {
		b.exit(int32(2+i), 10, group, int32(min(i+1, lives))).later(poisonWait.Milliseconds())
	}
	b.bury(group, 10, lives)
	b.dead[len(b.dead)-1].do = doKill
}

// poisonSoon has it killed again so many milliseconds after the last time, the first one or the second.
func (b *book) poisonSoon(which int, wait int64) {
	b.poison(3)
	sooner := poisonWait.Milliseconds() - wait
	at := int64(0)
	for n, i := 0, 0; i < len(b.events); i++ {
		e := &b.events[i]
		if e.kind == evStart && e.job == 10 {
			if n++; n == which+1 {
				at = e.at
			}
		}
		if at != 0 && e.at >= at {
			e.at -= sooner * ms
		}
	}
	for i := range b.marks {
		if b.marks[i].at >= at {
			b.marks[i].at -= sooner * ms
		}
	}
}

// besidePoison has an innocent in each of the processes that a job of that group kills, from the second on.
func (b *book) besidePoison(group int32) {
	b.send(11, 11, 2, resOK).poisonIn(group, 3)
	n := int32(0)
	for _, e := range slices.Clone(b.events) {
		if e.kind == evStart && e.job == 10 {
			if n++; n > 1 {
				b.events = append(b.events, event{
					at: e.at - 1, kind: evStart, proc: e.proc, group: 2, job: 11,
					attempt: n - 1, arg: 11, word: "-",
				})
			}
		}
	}
	b.done(0, 11, 2, 3)
	slices.SortStableFunc(b.events, func(x, y event) int { return cmp.Compare(x.at, y.at) })
}

// behindPoison has an innocent in the first two processes that a job kills. The first time, the job is behind the head
// of a batch, which is charged in its place.
func (b *book) behindPoison() {
	const group = 3 // of queueEach
	b.procs = append(b.procs, "w5", "w6", "w7")
	b.send(9, 9, group, resOK).send(10, 10, group, resOK).send(11, 11, 2, resOK)
	for i, attempt := range []int32{1, 1, 2, 3} {
		proc := int32(2 + i)
		if i == 1 {
			b.done(0, 9, group, 2)
		}
		if i < 2 {
			b.starts(proc, 11, 2, attempt+int32(i))
		}
		if i == 0 {
			b.starts(proc, 9, group, 1).event(proc, evTx, group, 9, 1, 72, "-").event(proc, evEnd, group, 9, 1, 0, "ok")
		}
		b.exit(proc, 10, group, attempt).later(poisonWait.Milliseconds())
	}
	b.done(0, 11, 2, 3).bury(group, 10, lives)
	b.dead[len(b.dead)-1].do = doKill
}

// locked has a group locked for some seconds.
func (b *book) locked(pid int64) *book {
	for range 8 {
		b.samples = append(b.samples, lockSample{b.now * ms, b.now * ms, "plain/g1", pid, "777", "w1"})
		b.later(1000)
	}
	return b
}

// lockedAs is locked, of the group with that queue and id.
func (b *book) lockedAs(pid int64, group string) {
	n := len(b.samples)
	b.locked(pid)
	for i := range b.samples[n:] {
		b.samples[n+i].group = group
	}
}

// probe enqueues into a held group, in so many milliseconds.
func (b *book) probe(took int64) {
	n := int64(probes + 1)
	b.enqueues = append(b.enqueues, enqueue{
		n: n, id: 10, group: 1, result: resOK, invoke: b.now * ms, back: (b.now + took) * ms, how: howProbe,
	})
	b.later(took).run(0, 10, 1, 1, "ok", "succeeded")
	b.events[len(b.events)-4].arg = n
	b.effect(1, 10, 1)
	b.effects[len(b.effects)-1].msg = n
}

// reads has so many bytes of rows open for so many milliseconds.
func (b *book) reads(bytes, took int64) *book {
	return b.event(0, evRows, 1, 10, 1, bytes, "-").later(took).event(0, evRead, 1, 10, 1, 0, "-")
}

// stubborn has a handler that does not end, and is told and followed by the next one so many milliseconds after its
// start. 0: it is not told, and ends by itself.
func (b *book) stubborn(told, next int64) {
	const group = stubbornFrom + 1
	b.send(10, 10, group, resOK).event(0, evStart, group, 10, 1, 10, doStubborn).event(0, evTx, group, 10, 1, 71, "-")
	if told > 0 {
		b.later(told).event(0, evTold, group, 10, 1, 0, "-")
	}
	b.later(next - told)
	if told > 0 {
		b.event(0, evSettled, group, 10, 1, 0, "unknown")
	} else {
		b.ends(0, 10, group, 1, "error", "retried")
	}
	b.done(1, 10, group, 2)
}

// looked has a job's worker die, an operator look at the jobs of a group, and nobody count that attempt.
func (b *book) looked(group string) {
	b.send(10, 10, 1, resOK).starts(2, 10, 1, 1).later(1500).mark(faultKill, "w3", 0)
	b.noted(faultOperator, "", " lock of 2 jobs of plain/"+group).done(0, 10, 1, 1)
}
