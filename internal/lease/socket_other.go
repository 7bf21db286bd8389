//go:build !linux

package lease

import (
	"net"
	"time"
)

func setUserTimeout(*net.TCPConn, time.Duration) {}
