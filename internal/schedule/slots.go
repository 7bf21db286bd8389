package schedule

// Slots are what the process knows of a queue that may run only so many jobs at once, over all processes, or so many of
// a group (team.go). How many it is not told: it takes slots until a claim finds none (package lease). From then on a
// lane may try when one of its own has ended a job and so freed a slot; and for others' sake now and then, one lane
// after the other until a claim finds none again. Nobody tells of a slot that another process has freed, nor of a group
// that it has: so one look of the scout does for both (slots.ask).
type slots struct {
	limited    bool // the queue has a limit; without it nothing of the rest is set
	met        bool // a claim has found no slot; from then on tries bounds the lanes
	tries      int  // how many lanes may still try
	trying     bool // they try for others' sake, until one finds no slot
	asked      bool // a group is watched that is looked at before they do
	groupLimit int  // how many jobs of a group may run at once; 0: one, as in other queues
}

// set enters whether the queue has a limit, and how many jobs of a group may run at once.
func (s *slots) set(limited bool, groupLimit int) {
	if !limited {
		*s = slots{}
		return
	}
	s.limited, s.groupLimit = true, groupLimit
}

// full reports whether no lane may try to get a slot.
func (s *slots) full() bool { return s.met && s.tries <= 0 }

// change enters that so many lanes more work the queue, or fewer.
func (s *slots) change(lanes int) {
	if s.met {
		s.tries -= lanes
	}
}

// over enters that a claim has found no slot.
func (s *slots) over() {
	if s.limited {
		s.met, s.trying = true, false
		s.tries-- // its end is no slot's
	}
}

// under enters that a claim has a slot, and reports whether another lane may try.
func (s *slots) under() bool {
	if !s.trying || s.tries > 0 { // one for others' sake is enough
		return false
	}
	s.tries++
	return true
}

// ask reports whether a turn that found no slot is to be watched like one that another process has, because none of its
// queue is: so the scout looks at it before long, and looked lets another claim try.
func (s *slots) ask(turn *Turn) bool {
	if !s.limited || s.asked {
		return false
	}
	s.asked, turn.asks = true, true
	return true
}

// looked enters that a turn is watched no more.
func (s *slots) looked(turn *Turn) {
	if turn.asks && s.limited {
		s.asked, s.trying = false, true
		if s.tries <= 0 {
			s.tries++
		}
	}
	turn.asks = false
}
