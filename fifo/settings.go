package fifo

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Settings of a queue are what all processes that use it must agree on, so they are in the database: see
// Scope.Configure. The zero value has the defaults.
type Settings struct {
	// DedupWindow is for how long a Message.DedupID is remembered, from the first enqueue with it. Defaults to 5
	// minutes; at most MaxDelay. Rounded up to microseconds. A change is for what is enqueued after it.
	DedupWindow time.Duration
	// DedupByGroup says that a Message.DedupID is one of its group. By default it is one of the queue. Ungrouped
	// messages count as one group. After a change the ids that were remembered do not count, unless you change it back.
	DedupByGroup bool
	// DeadLetterRetention is how long the queue's dead letters are kept, by the server's clock. Any worker deletes
	// those that are older, once in its SweepInterval. By default they are kept for ever: nothing is lost unasked.
	// Rounded up to microseconds.
	DeadLetterRetention time.Duration
	// Limit is how many jobs of the queue may run at once, over all processes; a batch counts as one. Defaults to 0, no
	// limit; at most MaxLimit.
	//
	// It holds for every claim that begins after Configure or Reconfigure has returned (in a transaction of the
	// caller's: after its commit), whether its worker has heard of it or not. What runs by then goes on. Until it has
	// ended, more than Limit may run: as many as the highest limit under which one of those jobs began. Jobs that began
	// without a limit do not count: Limit others may run beside them.
	Limit int
	// GroupLimit is how many jobs of a group may run at once, over all processes. Defaults to 1; at most
	// MaxGroupLimit. With more than 1 they start in order: a job starts only when every job before it in its group
	// runs, or is gone. A head that is delayed or backs off, or that an operator has locked, holds the group: nothing
	// behind it starts, and what runs goes on. A job that fails or is given back is the next to start. What is given
	// up is the order of effects: those of two jobs of a group that run at once may interleave, and the later one may
	// be done first.
	//
	// Each attempt is marked in the table attempt_marks before its handler runs, with a commit of its own on the
	// client's pool, so a group starts as many jobs a second as the disk flushes. If the pool has no connection for
	// that within a second, the job is given back, and its group rests for a moment. A batch has one job there.
	//
	// A place that a job of another process has left is found within a PollInterval.
	//
	// A change holds as that of Limit does: never more run than the former or the new one says, whichever is higher,
	// and when what runs by then has ended, no more than the new one. A queue that has had more than 1 goes on marking
	// its attempts. An attempt that died just before the queue had its first such limit may not be counted.
	GroupLimit int
	// SessionLease gives the queue another lease, for long jobs. A job runs without an open transaction then, and any
	// number of them share one connection of their worker. What is promised is the same; see the package's
	// documentation, under Long jobs, for when to take it. A queue that has a GroupLimit above 1, or had one, cannot
	// get it.
	//
	// A worker learns it when Run begins. One that runs when it is changed goes on with the lease that it has, beside
	// others with the new one: neither takes a group that the other has. It logs a warning once in its SweepInterval,
	// if it sweeps.
	SessionLease bool
}

// MaxGroupLimit is the highest GroupLimit.
const MaxGroupLimit = 100

// MaxLimit is the highest Limit. A look for a free slot takes a microsecond or two for each slot in use.
const MaxLimit = 1000

const maxRetention = 100 * 365 * 24 * time.Hour // a Duration has room for three times as much

func (s Settings) withDefaults() Settings {
	s.DedupWindow = cmp.Or(s.DedupWindow, 5*time.Minute)
	s.GroupLimit = cmp.Or(s.GroupLimit, 1)
	for _, d := range []*time.Duration{&s.DedupWindow, &s.DeadLetterRetention} {
		*d = time.Duration(microseconds(*d)) * time.Microsecond
	}
	return s
}

// checked returns the settings with their defaults.
func (s Settings) checked() (Settings, error) {
	switch {
	case s.DedupWindow < 0 || s.DedupWindow > MaxDelay:
		return s, fmt.Errorf("%w: DedupWindow %v is negative, or over %v", ErrInvalidSettings, s.DedupWindow, MaxDelay)
	case s.DeadLetterRetention < 0 || s.DeadLetterRetention > maxRetention:
		return s, fmt.Errorf("%w: DeadLetterRetention %v is negative, or over %v",
			ErrInvalidSettings, s.DeadLetterRetention, maxRetention)
	case s.Limit < 0 || s.Limit > MaxLimit:
		return s, fmt.Errorf("%w: Limit %d is negative, or over %d", ErrInvalidSettings, s.Limit, MaxLimit)
	case s.GroupLimit < 0 || s.GroupLimit > MaxGroupLimit:
		return s, fmt.Errorf("%w: GroupLimit %d is negative, or over %d",
			ErrInvalidSettings, s.GroupLimit, MaxGroupLimit)
	case s.lease() != transaction && s.GroupLimit > 1:
		return s, fmt.Errorf("%w: SessionLease and GroupLimit %d exclude each other", ErrInvalidSettings, s.GroupLimit)
	}
	return s.withDefaults(), nil
}

// columns are the settings as they are stored, in the order of the statements.
func (s Settings) columns() []any {
	return []any{
		microseconds(s.DedupWindow), s.DedupByGroup, microseconds(s.DeadLetterRetention), s.Limit, s.GroupLimit,
		s.lease().name,
	}
}

func (s Settings) lease() *kind {
	if s.SessionLease {
		return session
	}
	return transaction
}

// microseconds rounds up.
func microseconds(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// Settings returns those of the queue: the defaults, if nobody has configured it. It returns ErrInvalidID for a group.
func (s Scope) Settings(ctx context.Context) (Settings, error) {
	stored, err := s.settings(ctx, "read the settings of")
	return stored.Settings, err
}

// storedSettings are those that the database has, or the defaults.
type storedSettings struct {
	Settings
	found              bool
	hadLimit, hadLease bool // it has or had a GroupLimit above 1, or a lease other than the default
	leaseName          string
}

func (s Scope) settings(ctx context.Context, verb string) (stored storedSettings, err error) {
	if s.level != ofQueue {
		return stored, fmt.Errorf("%w: settings are a queue's", ErrInvalidID)
	}
	stored.leaseName = transaction.name
	err = s.read(ctx, verb, statement("settings"), func(r row) error {
		stored.found = true
		var window, retention int64
		err := r.Scan(&window, &stored.DedupByGroup, &retention, &stored.Limit, &stored.GroupLimit,
			&stored.leaseName, &stored.hadLimit, &stored.hadLease)
		stored.SessionLease = kindOf(stored.leaseName) == session
		stored.DedupWindow = time.Duration(window) * time.Microsecond
		stored.DeadLetterRetention = time.Duration(retention) * time.Microsecond
		return err
	}, s.queue)
	stored.Settings = stored.withDefaults()
	return stored, err
}

// Configure gives settings to a queue that nobody has configured. If it has the same already, it changes nothing: call
// it at each start, in every process. If it has others, Configure returns ErrConflict and changes nothing either. Log
// that and go on: what is stored holds for this process, too. Do not end the program: after a Reconfigure, the release
// before it, which has the old settings, could not start again. Configure returns ErrInvalidID for a group, and
// ErrInvalidSettings.
//
// With the roles of package migrations a worker or an admin may store settings. A producer may only read them, and gets
// the server's error (42501) while there are none: on a new system workers start first, or a deploy job configures.
func (s Scope) Configure(ctx context.Context, want Settings) error {
	const verb = "configure"
	want, err := want.checked()
	if err != nil {
		return err
	}
	stored, err := s.settings(ctx, verb)
	if err != nil {
		return err
	}
	if !stored.found {
		done := false
		err := s.change(ctx, verb, statement("configure"), into(&done), append([]any{s.queue}, want.columns()...)...)
		if err != nil || done {
			return err
		}
		if stored, err = s.settings(ctx, verb); err != nil { // somebody else was quicker
			return err
		}
	}
	return s.failed(verb, stored.conflict(want))
}

// Reconfigure replaces the settings of a queue, if they are those of from. Else it returns ErrConflict and changes
// nothing. A queue that nobody has configured has the defaults. Processes that go on calling Configure with the
// replaced ones get ErrConflict.
//
// With the roles of package migrations only an admin may call it: a deploy job, say, before the new release starts. A
// new release that has the right may do it by itself. It calls Configure with the new settings, and Reconfigure if that
// returns ErrConflict. If Reconfigure returns ErrConflict too, others were quicker, or are newer: it logs that and goes
// on.
//
// It returns ErrInvalidID for a group, and ErrInvalidSettings, also for a SessionLease or GroupLimit that the queue
// cannot get because it has, or had, the other.
func (s Scope) Reconfigure(ctx context.Context, from, to Settings) error {
	const verb = "reconfigure"
	from, err := from.checked()
	if err != nil {
		return err
	}
	if to, err = to.checked(); err != nil {
		return err
	}
	if s.level != ofQueue {
		return fmt.Errorf("%w: settings are a queue's", ErrInvalidID)
	}
	for again := false; ; again = true {
		done, err := s.reconfigure(ctx, verb, from, to)
		if err != nil || done {
			return err
		}
		stored, err := s.settings(ctx, verb)
		if err == nil {
			err = s.failed(verb, stored.conflict(from))
		}
		switch {
		case err != nil:
			return err
		case stored.hadLease && to.GroupLimit > 1, stored.hadLimit && to.lease() != transaction:
			return s.failed(verb, fmt.Errorf("%w: a queue that has had a SessionLease gets no GroupLimit above 1, "+
				"nor the other way round", ErrInvalidSettings))
		case again:
			return s.failed(verb, fmt.Errorf("%w: others change them at the same time", ErrConflict))
		}
		// Somebody else has since set them to those of from.
	}
}

// reconfigure reports whether the settings were those to be replaced.
func (s Scope) reconfigure(ctx context.Context, verb string, from, to Settings) (done bool, err error) {
	args, have, want := []any{s.queue, from == Settings{}.withDefaults()}, from.columns(), to.columns()
	for i := range have {
		args = append(args, have[i], want[i])
	}
	err = s.together(ctx, verb, func(s Scope) error {
		err := s.change(ctx, verb, statement("reconfigure"), into(&done), args...)
		if err != nil || !done || to.Limit > 0 {
			return err
		}
		return s.change(ctx, verb, statement("unlimit"), nil, s.queue)
	})
	return done && err == nil, err
}

// conflict names the fields in which the settings of a queue are not those that were expected, and a lease of a newer
// release. It returns nil if there are none.
func (stored storedSettings) conflict(want Settings) error {
	var differ []string
	if stored.leaseName != kindOf(stored.leaseName).name {
		differ = append(differ, fmt.Sprintf("the lease is %q, which this release does not know", stored.leaseName))
		stored.SessionLease = want.SessionLease
	}
	have, not := reflect.ValueOf(stored.Settings), reflect.ValueOf(want)
	for i := range have.NumField() {
		if h, n := have.Field(i).Interface(), not.Field(i).Interface(); h != n {
			differ = append(differ, fmt.Sprintf("%s is %v, not %v", have.Type().Field(i).Name, h, n))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrConflict, strings.Join(differ, ", "))
}
