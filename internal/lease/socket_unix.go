//go:build unix && !linux

package lease

import "syscall"

// hungUp reports whether the other side has ended the connection. It does not know while there is something to be read.
func hungUp(socket syscall.RawConn) (gone bool) {
	err := socket.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		gone = n == 0 && err == nil
	})
	return gone || err != nil
}
