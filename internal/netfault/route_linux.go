package netfault

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// isRouted reports whether a route of this machine, the default aside, covers an address: it is somebody's.
func isRouted(ip net.IP) (bool, error) {
	file, err := os.Open("/proc/net/route")
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Scan() // the heading
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 8 {
			return false, fmt.Errorf("/proc/net/route: %q", lines.Text())
		}
		to, err1 := strconv.ParseUint(fields[1], 16, 32)
		mask, err2 := strconv.ParseUint(fields[7], 16, 32)
		if err1 != nil || err2 != nil {
			return false, fmt.Errorf("/proc/net/route: %q", lines.Text())
		}
		// The file has the bytes of the network in the machine's order.
		if mask != 0 && uint64(binary.NativeEndian.Uint32(ip))&mask == to {
			return true, nil
		}
	}
	return false, lines.Err()
}
