package schedule

import (
	"maps"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// floors remembers how far the jobs of a group are done, so that a claim does not walk over the dead entries of those
// before: vacuum cannot remove them while any transaction is old, and a long job is an old transaction. With floors the
// rate under a held snapshot is flat (0.95 of that at its beginning after 940,000 jobs, bench/RESULTS.md, horizon).
//
// A floor hides what lies below it, and a lower id may be there and not be seen yet: its enqueue drew it and has not
// committed. When that returns, its job is before everything that is enqueued afterwards, and a floor must not change
// that. So a finished job becomes its group's floor only when
//
//   - every transaction that may have drawn a lower id has ended;
//   - and then a claim that was not kept from looking has found nothing below it.
//
// That they have ended is seen in one of two ways. A transaction that draws an id has a transaction id by then (a
// trigger of the table sees to that), which is lower than that of a claim that comes when the job is finished. As soon
// as another claim's snapshot has no transaction in progress that is as old as that claim, all have ended. That takes a
// few claims, and costs nothing. But while some transaction stays open for long, whatever it does, no snapshot says so;
// then the scout asks for those alone that are writing to the jobs (writers.sql). Whoever has drawn an id is among
// them: an INSERT locks its table before it draws, and until its transaction ends.
//
// Only a job that is put back with its old id, by a redrive, comes below a floor all the same. A floor is dropped when
// a lower id is announced, or discovered by a walk or a look, and when a claim finds nothing behind it. If no walk over
// all groups is made in time, each group is claimed once without its floor, which costs as much.
//
// A server that crashes without synchronous_commit, or is replaced by a standby, may lose the commit that finished the
// job, and have the job again. So a floor is only for connections that are older than that commit: if they are alive,
// so is the server that has it.
type floors struct {
	fresh    map[groups.Key]groupFloor
	old      map[groups.Key]groupFloor // of groups that have not been worked for a while
	aged     bool                      // the old ones are out of force: the next claim confirms them, or does not
	swept    time.Time                 // when the fresh ones became old
	born     time.Time                 // since when it is not known whether there is something below the floors
	validFor time.Duration             // how long the floors are in force, from born on
	looks    int64                     // how many times the scout has begun to look for heads, which it then offers

	epoch    int64    // how often the writers were asked for
	safe     int64    // all writers that the answer of this epoch told of have ended
	asked    int64    // the epoch whose writers are waited for
	writers  []string // those of that epoch who have not ended
	unproven int      // claims since they were asked for, of groups whose floors wait for them
}

// A groupFloor is what is known of one group.
type groupFloor struct {
	floor floor // in force
	look  int64 // the last look for heads that had begun when the floor was raised
	was   int64 // what the floor was when that look began
	next  floor // to come into force
	since int64 // the epoch in which next was finished
	bound int64 // a transaction that began after that, or 0
	tried int   // claims since then whose snapshots were not enough
}

// A floor is the id of a finished job, and how many lanes had been dialed when it was claimed.
type floor struct {
	id      int64
	learned int64
}

// floorAge is how long a job that was put back below its group's floor may be passed over when nobody announces it, as
// long as walks are no slower.
const floorAge = tuning.Grace

// of returns what is known of a group, of which the floor is in force.
func (f *floors) of(k groups.Key) groupFloor {
	m, ok := f.fresh[k]
	if ok {
		return m
	}
	if m = f.old[k]; f.aged && m.floor.id > 0 {
		m = groupFloor{next: m.floor, since: -1} // all who might have brought a lower id have ended long ago
	}
	return m
}

// raise notes that the job with this id is gone from the group of the turn, which the claim had.
func (f *floors) raise(turn *Turn, claim lease.Seen, id int64) {
	m := f.of(turn.Key)
	looked := turn.floor.id < m.next.id && m.next.id < id
	if looked && (m.since < turn.safe || m.bound > 0 && m.bound < claim.Oldest) {
		if m.look < f.looks {
			m.was, m.look = m.floor.id, f.looks
		}
		m = groupFloor{floor: m.next, was: m.was, look: m.look}
	}
	switch {
	case m.next.id == 0:
		m.next, m.since = floor{id, claim.Dialed}, f.epoch
	case m.bound == 0 && claim.XID > 0:
		m.bound = claim.XID
	case looked:
		if m.tried++; m.tried >= tuning.Few { // no snapshot may ever be enough: writers are to be asked for
			f.unproven++
		}
	}
	f.fresh[turn.Key] = m
	if len(f.fresh) > tuning.Known { // groups come and go: those of no more than twice as many are known
		f.sweep(time.Now(), false)
	}
}

// below drops what is known of a group if the job with this id lies under it, as a notification says.
func (f *floors) below(k groups.Key, id int64) {
	if m := f.of(k); id <= max(m.floor.id, m.next.id) {
		f.drop(k)
	}
}

// found drops what is known of a group if the head that the scout has found there lay under its floor already when it
// began to look. Else the head is from before the floor was raised.
func (f *floors) found(k groups.Key, id int64) {
	m := f.of(k)
	was := m.floor.id
	if m.look == f.looks {
		was = m.was
	}
	if id <= was {
		f.drop(k)
	}
}

func (f *floors) drop(k groups.Key) {
	delete(f.fresh, k)
	delete(f.old, k)
}

func (f *floors) forget(queue string) {
	for _, some := range []map[groups.Key]groupFloor{f.fresh, f.old} {
		maps.DeleteFunc(some, func(k groups.Key, _ groupFloor) bool { return k.Queue == queue })
	}
}

// checked notes that the heads of all groups have been offered since the given time. For the time keep they need not
// be looked at again for jobs that were put back. Floors of groups that are not worked any more are let go with time.
func (f *floors) checked(since time.Time, keep time.Duration) {
	f.born, f.validFor = since, max(keep, floorAge)
	if now := time.Now(); now.Sub(f.swept) >= floorAge {
		f.sweep(now, false)
	}
}

// age takes all floors out of force when they are old enough.
func (f *floors) age(now time.Time) {
	if now.Sub(f.born) >= f.validFor {
		f.born = now
		f.sweep(now, true)
	}
}

func (f *floors) sweep(now time.Time, aged bool) {
	f.old, f.fresh, f.aged, f.swept = f.fresh, make(map[groups.Key]groupFloor), aged, now
}

// ask begins an epoch, just before the transactions which write to the jobs are asked for.
func (f *floors) ask() {
	f.epoch++
	f.unproven = 0
}

// answered notes who was writing to the jobs in the present epoch. A prepared transaction has lost the name under which
// it wrote before, so while there is one, none of those that are waited for has ended.
func (f *floors) answered(writers []string, prepared bool) {
	if len(f.writers) > 0 {
		f.writers = slices.DeleteFunc(f.writers, func(w string) bool {
			return !prepared && !slices.Contains(writers, w)
		})
		if len(f.writers) > 0 {
			return
		}
		f.safe = f.asked
	}
	f.asked, f.writers = f.epoch, writers
	if len(writers) == 0 {
		f.safe = f.epoch
	}
}
