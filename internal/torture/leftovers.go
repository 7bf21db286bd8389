package torture

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// A level is what there is in a process, at one moment, of what may leak.
type level struct {
	goroutines map[string]int // by stack
	files      int            // open; -1: this system does not tell
	acquired   int            // connections that somebody has of the pool
}

func look(pool *pgxpool.Pool) *level {
	l := &level{goroutines: goroutines(), files: -1, acquired: int(pool.Stat().AcquiredConns())}
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		l.files = len(list)
	}
	return l
}

// restWithin is how long what is on its way out may take.
const restWithin = 15 * time.Second

// atRest returns the level once it stands still.
func atRest(pool *pgxpool.Pool) *level {
	pool.Reset()
	last := look(pool)
	until(context.Background(), restWithin, func() bool {
		_ = pause.For(context.Background(), 100*time.Millisecond)
		before := last
		last = look(pool)
		return len(last.above(before)) == 0
	})
	return last
}

// leftovers returns what there is more of than before, when what ends has had its time to.
func leftovers(pool *pgxpool.Pool, before *level) (more []string) {
	pool.Reset()
	until(context.Background(), restWithin, func() bool {
		more = look(pool).above(before)
		return len(more) == 0
	})
	return more
}

// above tells what there is more of than there was.
func (l *level) above(before *level) (more []string) {
	say := func(what string, was, is int) {
		if is > was {
			more = append(more, fmt.Sprintf("%s: %d, and before %d", what, is, was))
		}
	}
	for _, stack := range slices.Sorted(maps.Keys(l.goroutines)) {
		say("goroutines at "+stack, before.goroutines[stack], l.goroutines[stack])
	}
	say("open files", before.files, l.files)
	say("connections in use", before.acquired, l.acquired)
	return more
}

// goroutines counts the other goroutines by their stacks, without what differs between two of a kind.
func goroutines() map[string]int {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+100)
	n, ok := runtime.GoroutineProfile(records)
	for !ok {
		records = make([]runtime.StackRecord, n+100)
		n, ok = runtime.GoroutineProfile(records)
	}
	counts := make(map[string]int)
	for i := range records[:n] {
		var stack []string
		frames := runtime.CallersFrames(records[i].Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			stack = append(stack, f.Function)
		}
		if !slices.Contains(stack, "runtime.GoroutineProfile") {
			counts[strings.Join(stack, " < ")]++
		}
	}
	return counts
}
