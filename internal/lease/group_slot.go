package lease

// A claim of a group of which several jobs may run at once (Request.GroupSlot) is three statements: one locks a slot of
// the group (sql/lock_group_slot.sql), the next the first job that nobody runs (sql/lock_next.sql), and the third looks
// whether that is the right one (sql/claim_group_slot.sql). The job has started when its attempt is marked (Lane.Mark):
// until then no claim passes over it.

func (l *Lane) sendGroupSlot(p *pipeline, next *Request) (claimed func() *Hold) {
	var hold *Hold
	args := [][]byte{[]byte(next.Queue), []byte(next.GroupID)}
	p.send(stmtLockGroupSlot, args, func(r *rowReader) {
		l.missed = NoHead
		if r.bool() {
			l.missed = OverLimit
		}
		r.bool() // locked
	})
	p.send(stmtLockNext, args, func(r *rowReader) {
		r.bool()
		l.missed = NextLocked // until the job is claimed
	})
	p.send(stmtClaimGroupSlot, args, func(r *rowReader) {
		hold = &Hold{Held: Held{Key: next.Key, N: next.N, GroupSlot: true}}
		hold.scan(r, 0)
		hold.More = r.bool()
		l.missed = NoHead
	})
	return func() *Hold { return hold }
}
