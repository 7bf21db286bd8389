package wallclock

import (
	"sync"
	"sync/atomic"
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

func jump(seconds int64) bool {
	install.Do(func() {
		if kernels = vdso; kernels != 0 {
			vdso = address()
		}
	})
	offset.Store(seconds)
	return kernels != 0
}
