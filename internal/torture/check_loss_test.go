package torture

import (
	"testing"
)

// What is lost, done twice or not at all: I1, I2 and I5.
func TestBrokenLossHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"an enqueue is lost":                         {"I1", func(b *book) { b.send(10, 10, 1, resOK) }},
		"an enqueue of unknown outcome is not there": {"", func(b *book) { b.send(10, 0, 1, resUnknown) }},
		"an enqueue is done as another job": {"I1", func(b *book) {
			b.send(10, 10, 1, resOK).doneAs(0, 11, 1, 10)
		}},
		"a rolled back message runs": {"I2", func(b *book) {
			b.send(10, 0, 1, resFailed).run(0, 10, 1, 1, "error", "retried")
		}},
		"a job runs in another group": {"I1", func(b *book) { b.send(10, 10, 1, resOK).done(0, 10, 2, 1) }},
		"two effects":                 {"I5", func(b *book) { b.effect(0, 4, 1) }},
		"two jobs of one message":     {"I5", func(b *book) { b.doneAs(0, 12, 0, 4) }},
		"a write of a handler that had returned": {"I5", func(b *book) {
			b.strays = append(b.strays, stray{0, 2, 1, "nested pgx"})
		}},
		"an effect of an attempt that failed": {"I5", func(b *book) { b.effects[1].attempt = 1 }},
		"an effect of a dead letter": {"I5", func(b *book) {
			b.send(10, 10, 1, resOK).run(0, 10, 1, 1, "ok", "buried")
			b.events[len(b.events)-4].word = doSwallow
			b.effect(1, 10, 1).bury(1, 10, 1)
		}},
		"a job runs again when it is done": {"I5", func(b *book) {
			b.send(10, 10, 1, resOK).done(0, 10, 1, 1).run(1, 10, 1, 2, "error", "retried")
		}},
		"a job is spawned by an attempt that was undone":     {"I5", func(b *book) { b.spawn("error", true) }},
		"a job is spawned by an attempt that was not undone": {"", func(b *book) { b.spawn("ok", true) }},
		"a spawned job is not there":                         {"I1", func(b *book) { b.spawn("ok", false) }},
		"a job is spawned by an attempt that was undone, and another message has its place": {"", func(b *book) {
			b.event(0, evStart, 1, 10, 1, 10, doSpawn).event(0, evSpawn, 1, 10, 1, 10+children, "20")
			b.ends(0, 10, 1, 1, "ok", "returned").replaced(resOK, 11)
		}},
		"a child is spawned twice": {"I5", func(b *book) {
			b.spawn("ok", true)
			b.doneAs(0, 21, 2, 10+children)
		}},
		"nobody has spawned a child": {"I5", func(b *book) { b.doneAs(0, 21, 2, 10+children) }},
	})
}
