package schedule

// Slots are what the process knows of a queue with a limit of jobs that run at once, over all processes, or of those of
// a group (team.go). It is not told the queue's limit: it takes slots until a claim finds none (package lease). From
// then on a lane may try when a lane of this process has ended a job and so freed a slot. Other processes may have
// freed slots, too: so lanes also try now and then, one after the other, until a claim finds none again. Nobody tells
// of such a slot, nor of a group that another process has let go: one look of the scout serves for both (slots.ask).
type slots struct {
	limited    bool // the queue has a limit; without it nothing of the rest is set
	met        bool // a claim has found no slot; from then on tries bounds the lanes
	tries      int  // how many lanes may still try
	trying     bool // they try whether others have freed some, until one finds none
	asked      bool // a group is watched that is looked at before they do
	groupLimit int  // how many jobs of a group may run at once; 0: one, as in other queues
}

// set notes whether the queue has a limit, and how many jobs of a group may run at once.
func (s *slots) set(limited bool, groupLimit int) {
	if !limited {
		*s = slots{}
		return
	}
	s.limited, s.groupLimit = true, groupLimit
}

// full reports whether no lane may try to get a slot.
func (s *slots) full() bool { return s.met && s.tries <= 0 }

// change notes how many more lanes work the queue; below 0: fewer.
func (s *slots) change(lanes int) {
	if s.met {
		s.tries -= lanes
	}
}

// over notes that a claim has found no slot.
func (s *slots) over() {
	if s.limited {
		s.met, s.trying = true, false
		s.tries-- // its end frees no slot
	}
}

// under notes that a claim has a slot, and reports whether another lane may try.
func (s *slots) under() bool {
	if !s.trying || s.tries > 0 { // one at a time is enough
		return false
	}
	s.tries++
	return true
}

// ask reports whether a turn that found no slot is to be watched like one that another process has, because no turn of
// its queue is watched: so the scout looks at it before long, and looked lets another claim try.
func (s *slots) ask(turn *Turn) bool {
	if !s.limited || s.asked {
		return false
	}
	s.asked, turn.asks = true, true
	return true
}

// looked notes that a turn is watched no more.
func (s *slots) looked(turn *Turn) {
	if turn.asks && s.limited {
		s.asked, s.trying = false, true
		if s.tries <= 0 {
			s.tries++
		}
	}
	turn.asks = false
}
