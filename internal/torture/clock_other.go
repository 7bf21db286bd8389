//go:build !linux

package torture

import "time"

// now is the time in nanoseconds: here that of the wall clock, which all processes of this host share.
func now() int64 { return time.Now().UnixNano() }

// clockRemark says what is wrong with the clock.
const clockRemark = "event times are those of the wall clock: if somebody sets it during a run, the run proves nothing"
