package wallclock

import (
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

//go:linkname vdso runtime.vdsoClockgettimeSym
var vdso uintptr

var (
	kernels uintptr // the kernel's function
	offset  atomic.Int64
	install sync.Once
)

// address returns that of the function that stands in the place of the kernel's.
func address() uintptr

// Jump moves the wall clock of this process to the system's and d, in whole seconds, from now on for everything in it.
// It panics where the kernel maps no such function, because it has been told not to.
func Jump(d time.Duration) {
	install.Do(func() {
		if kernels = vdso; kernels == 0 {
			panic("wallclock: the kernel maps no clock_gettime")
		}
		vdso = address()
	})
	offset.Store(int64(d / time.Second))
}
