package schedule

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pgfifo/pgfifo/groups"
)

// vowels says to which of two shares groups belong.
func vowels(ids []string) []string {
	shares := make([]string, len(ids))
	for i, id := range ids {
		shares[i] = map[bool]string{true: "vowel", false: "consonant"}[strings.Contains("ae", id)]
	}
	return shares
}

// A dispatch is what the model remembers of the Turns: which lane has which group, and who waits.
type dispatch struct {
	turns   *Turns
	lanes   map[groups.Key]*Turn
	waiting []chan *Turn
	owed    map[groups.Key]bool // said to be ready: it is in line, or a lane has it
}

func TestTurnsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &dispatch{turns: NewTurns(4), lanes: make(map[groups.Key]*Turn), owed: make(map[groups.Key]bool)}
		d.turns.SetShares("r", Shares{Of: vowels, Weights: map[string]int{"vowel": 3}})
		d.turns.SetBatch("r", Batch{Groups: 2})
		key := rapid.Custom(func(t *rapid.T) groups.Key {
			return groups.Key{
				Queue:   rapid.StringMatching("[qr]").Draw(t, "queue"),
				GroupID: rapid.StringMatching("[a-f]").Draw(t, "group"),
			}
		})
		id := rapid.Int64Range(1, 9)
		t.Repeat(map[string]func(*rapid.T){
			"":         d.check,
			"offer":    func(t *rapid.T) { d.offer(t, key, id) },
			"looking":  func(*rapid.T) { d.turns.floors.looks++ },
			"urge":     func(t *rapid.T) { d.turns.Urge(key.Draw(t, "key"), id.Draw(t, "id")) },
			"announce": func(t *rapid.T) { d.announce(key.Draw(t, "key"), id.Draw(t, "id")) },
			"take": func(t *rapid.T) {
				if turn := d.turns.TryNext(); turn != nil {
					d.take(t, turn)
				}
			},
			"wait":    d.wait,
			"give up": d.giveUp,
			"done":    func(t *rapid.T) { d.done(t, id) },
			"again":   func(t *rapid.T) { d.again(t, id) },
			"due":     func(*rapid.T) { d.turns.Due() },
			"walked": func(t *rapid.T) {
				d.turns.rooms.walked(key.Draw(t, "key").Queue, rapid.Bool().Draw(t, "complete"))
			},
			"released": d.released,
		})
		d.drain(t)
	})
}

func (d *dispatch) offer(t *rapid.T, key *rapid.Generator[groups.Key], id *rapid.Generator[int64]) {
	c := Candidate{Key: key.Draw(t, "key"), ID: id.Draw(t, "id")}
	c.Priority = max(rapid.IntRange(-3, MaxPriority).Draw(t, "priority"), 0)
	c.share = d.turns.shares.of(c.Key)
	switch rapid.IntRange(0, 3).Draw(t, "state") {
	case 0:
		c.DueIn = time.Nanosecond
	case 1:
		c.DueIn = time.Hour
	case 2:
		c.Holder = id.Draw(t, "holder")
	default:
		// Of a group that a lane has, it may have seen no more than the job that the lane is running.
		if d.lanes[c.Key] == nil {
			d.owed[c.Key] = true
		}
	}
	d.turns.Offer([]Candidate{c})
	d.receive(t)
}

func (d *dispatch) announce(key groups.Key, id int64) {
	if part := d.turns.rooms.part(key.Queue, d.turns.shares.of(key)); d.turns.known[key] == nil &&
		d.turns.rooms.left(key.Queue, part, nil) > 0 {
		d.owed[key] = true
	}
	d.turns.Announce(key, id)
}

// take is a lane's: it has the group now, and must be the only one.
func (d *dispatch) take(t *rapid.T, turn *Turn) {
	for _, turn := range turn.All() {
		require.NotContains(t, d.lanes, turn.Key, "two lanes have it")
		require.Equal(t, withLane, turn.state)
		d.lanes[turn.Key] = turn
		delete(d.owed, turn.Key)
	}
}

// wait is Next up to where it blocks.
func (d *dispatch) wait(t *rapid.T) {
	if turn := d.turns.TryNext(); turn != nil {
		d.take(t, turn)
		return
	}
	ch := make(chan *Turn, 1)
	d.turns.waiting = append(d.turns.waiting, ch)
	d.waiting = append(d.waiting, ch)
}

// receive is Next from where it goes on.
func (d *dispatch) receive(t *rapid.T) {
	d.waiting = slices.DeleteFunc(d.waiting, func(ch chan *Turn) bool {
		select {
		case turn := <-ch:
			d.take(t, turn)
			return true
		default:
			return false
		}
	})
}

func (d *dispatch) giveUp(*rapid.T) {
	d.turns.waiting, d.waiting = nil, nil
}

// any returns one of the groups that lanes have.
func (d *dispatch) any(t *rapid.T) *Turn {
	keys := slices.SortedFunc(maps.Keys(d.lanes), func(a, b groups.Key) int {
		return strings.Compare(a.GroupID+a.Queue, b.GroupID+b.Queue)
	})
	if len(keys) == 0 {
		return nil
	}
	return d.lanes[rapid.SampledFrom(keys).Draw(t, "lane")]
}

func outcome(t *rapid.T, id *rapid.Generator[int64]) (o Outcome) {
	switch rapid.IntRange(0, 3).Draw(t, "outcome") {
	case 0:
		o.Missed = true
	case 1:
		o.DueIn, o.Priority = time.Nanosecond, rapid.IntRange(0, MaxPriority).Draw(t, "priority")
	case 2:
		o.Finished = id.Draw(t, "finished")
	default:
		o = Outcome{Finished: id.Draw(t, "finished"), More: true}
	}
	return o
}

func (d *dispatch) done(t *rapid.T, id *rapid.Generator[int64]) {
	turn := d.any(t)
	if turn == nil {
		return
	}
	o := outcome(t, id)
	roomy := !d.turns.rooms.part(turn.Queue, turn.share).overflowed
	if !o.Missed && o.DueIn == 0 && (turn.again || o.More && roomy) || o.Missed && turn.floor.id > 0 {
		d.owed[turn.Key] = true
	}
	delete(d.lanes, turn.Key)
	d.turns.Done(turn, o)
}

func (d *dispatch) again(t *rapid.T, id *rapid.Generator[int64]) {
	if turn := d.any(t); turn != nil {
		d.turns.Again(turn, outcome(t, id))
	}
}

// released is the scout's look at held groups: all are free, and some have no jobs.
func (d *dispatch) released(t *rapid.T) {
	xids, keys := d.turns.watched.holders(d.turns.poll)
	died := make(map[int64]bool)
	for i, x := range xids {
		died[x] = i%2 == 0
	}
	ended, orphans := d.turns.watched.by(died)
	keys = append(keys, ended...)
	d.turns.Recheck(keys)
	require.Empty(t, d.turns.watched.turns)
	if len(keys) > 0 {
		d.owed[keys[0]] = true
		d.turns.Offer([]Candidate{{Key: keys[0], ID: 1, Orphan: orphans[keys[0]], share: d.turns.shares.of(keys[0])}})
	}
}

// check looks at the structure: every group is in exactly one place, and no lane waits while there is one in line.
func (d *dispatch) check(t *rapid.T) {
	d.receive(t)
	turns := d.turns
	places := make(map[*Turn]turnState)
	place := func(turn *Turn, state turnState) {
		require.NotContains(t, places, turn)
		require.Equal(t, state, turn.state, turn.Key)
		require.Same(t, turn, turns.known[turn.Key])
		places[turn] = state
	}
	parts := make(map[*row]int) // that pay
	for _, turn := range d.lanes {
		parts[turn.row] += turn.lanePart
	}
	var look func(*line)
	look = func(l *line) {
		inRows := 0
		for _, r := range l.rows {
			ranked := 0
			for p, part := range r.lists {
				for _, turn := range part {
					place(turn, inLine)
					require.Equal(t, p, turn.rank)
					require.Equal(t, p, turn.priority)
				}
				if p > 0 {
					ranked += len(part)
				}
			}
			for _, turn := range r.fresh {
				place(turn, inLine)
				require.Zero(t, turn.rank)
			}
			require.Equal(t, ranked, r.ranked)
			inRows += r.len()
			require.Equal(t, r.len() > 0, slices.Contains(l.round, r))
			if l.others != nil {
				require.Equal(t, parts[r], r.working, "of a lane")
				require.Equal(t, r.overflowed, slices.Contains(l.overflowed, r))
			}
			if r.shares != nil {
				look(r.shares)
			}
		}
		require.Equal(t, inRows, l.n)
	}
	look(&turns.line)
	for i, turn := range turns.parked.heap {
		require.Equal(t, i, turn.index)
		place(turn, dueLater)
	}
	for turn := range turns.watched.turns {
		place(turn, heldElsewhere)
	}
	for _, turn := range d.lanes {
		place(turn, withLane)
	}
	require.Len(t, turns.known, len(places))
	if turns.line.n > 0 {
		require.Empty(t, turns.waiting)
	}
	for key := range d.owed {
		turn := turns.known[key]
		require.NotNil(t, turn, "%v is lost", key)
		require.Contains(t, []turnState{inLine, withLane}, turn.state, key)
	}
}

// drain gives everything back and takes what is in line: nothing that is owed may be missing.
func (d *dispatch) drain(t *rapid.T) {
	d.giveUp(t)
	d.turns.SetBatch("r", Batch{})
	for key, turn := range d.lanes {
		delete(d.lanes, key)
		d.turns.Done(turn, Outcome{Missed: true})
	}
	for turn := d.turns.TryNext(); turn != nil; turn = d.turns.TryNext() {
		d.take(t, turn)
		delete(d.lanes, turn.Key)
		d.turns.Done(turn, Outcome{Finished: 1})
	}
	require.Empty(t, d.owed)
}
