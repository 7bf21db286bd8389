package lease

import (
	"net"
	"syscall"
	"time"
	"unsafe"
)

const tcpUserTimeout = 0x12 // TCP_USER_TIMEOUT of linux/tcp.h, which package syscall does not name

// setUserTimeout bounds how long what we sent may stay unacknowledged; without it a statement sent into a partition
// is retransmitted for a quarter of an hour.
func setUserTimeout(tcp *net.TCPConn, d time.Duration) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
}

const ( // of poll.h
	pollErr   = 0x8
	pollHup   = 0x10
	pollRdHup = 0x2000
)

// hungUp reports whether the other side has ended the connection, even if there is still something to be read.
func hungUp(socket syscall.RawConn) (gone bool) {
	err := socket.Control(func(fd uintptr) {
		poll := struct {
			fd              int32
			events, revents int16
		}{fd: int32(fd), events: pollRdHup} //nolint:gosec // an int in C
		now := syscall.Timespec{}
		_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1,
			uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		gone = errno == 0 && poll.revents&(pollErr|pollHup|pollRdHup) != 0
	})
	return gone || err != nil
}
