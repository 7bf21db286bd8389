package schedule

// A bell tells one goroutine that there is something to do. Rings that it has not heard yet count as one.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
