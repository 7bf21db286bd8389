package torture

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A seed stands for a plan: all the faults that were asked for, in one order.
func TestPlan(t *testing.T) {
	t.Parallel()
	names := func(seed uint64) (list []string) {
		cfg := Profiles["ci"]
		cfg.Seed = seed
		r := &run{cfg: cfg, leftOut: map[string]string{faultCrash: "not today"}, log: t.Logf}
		for _, f := range r.plan() {
			list = append(list, f.name)
		}
		return list
	}
	one := names(1)
	require.Equal(t, one, names(1))
	require.NotEqual(t, one, names(2))
	counts := make(map[string]int)
	for _, name := range one {
		counts[name]++
	}
	want := make(map[string]int)
	for _, kind := range Kinds {
		if n := Profiles["ci"].Faults[kind.Flag]; n > 0 && kind.name != faultCrash {
			want[kind.name] = n
		}
	}
	require.Equal(t, want, counts)
}

// What cannot be injected is left out, and told.
func TestPlanWithoutProxy(t *testing.T) {
	t.Parallel()
	cfg := Config{Processes: 1, Faults: map[string]int{"kills": 1, "resets": 1}}
	r := &run{cfg: cfg, leftOut: make(map[string]string), log: t.Logf}
	require.Empty(t, r.plan())
	require.Contains(t, r.leftOut[faultKill], "another worker process")
	require.Contains(t, r.leftOut[faultReset], "three worker processes")
}

// A way that is cut is not cut once more, by somebody who would heal it sooner, though its processes have ended and
// others are there by now that nobody has reserved.
func TestPartitionsDoNotOverlap(t *testing.T) {
	t.Parallel()
	worker := func(w way) *process { return &process{way: w, exited: make(chan struct{})} }
	r := &run{slots: []*process{worker(byProxy), worker(byNet), worker(direct)}, cut: make(map[way]bool)}
	_, ok := r.reserveAll(byProxy)
	require.True(t, ok)
	close(r.slots[0].exited)
	r.slots[0] = worker(byProxy)
	_, ok = r.reserveAll(byProxy)
	require.False(t, ok)
	_, ok = r.reserveAll(byNet)
	require.True(t, ok)
	delete(r.cut, byProxy)
	_, ok = r.reserveAll(byProxy)
	require.True(t, ok)
}

// The same message has the same task in every run with the seed.
func TestTasks(t *testing.T) {
	t.Parallel()
	const many = 20_000
	o := order{Config: Config{Groups: 50, Jobs: many}}
	counts := make(map[string]int)
	rng, again := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
	for n := range int64(many) {
		a := newTask(rng, n, o)
		require.Equal(t, a, newTask(again, n, o))
		counts[a.Do]++
		require.Equal(t, a.kills(), a.message(0).MaxAttempts == lives)
	}
	for _, c := range chances {
		require.InDelta(t, c.chance*many/1000, counts[c.do], float64(c.chance*many/1000)/2+10, c.do)
	}
	require.InDelta(t, poisons(many), counts[doKill], 15)
}
