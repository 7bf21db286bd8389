//go:build !linux

package groups

import (
	"net"
	"time"
)

func setUserTimeout(*net.TCPConn, time.Duration) {}
