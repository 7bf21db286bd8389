// Package wallclock moves the wall clock of a test's process, and leaves the monotonic one alone. No system has a wall
// clock per process. But Go reads both by a function that the kernel maps into the process (vdso(7)), and has its
// address in a variable that packages may link to. A function in its place adds an offset.
package wallclock

import "time"

// Jump moves the wall clock of this process to the system's and d, in whole seconds, from now on for everything in it.
// It reports whether it could: only on Linux on amd64, where the kernel maps that function.
func Jump(d time.Duration) bool { return jump(int64(d / time.Second)) }
