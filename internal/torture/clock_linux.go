package torture

import (
	"golang.org/x/sys/unix"
)

// now is the time on a clock that all processes of this host share and nobody sets, in nanoseconds.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the clock is always there
	}
	return ts.Nano()
}

// clockRemark says what is wrong with the clock.
const clockRemark = ""
