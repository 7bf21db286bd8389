package pgserver

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	sharedMemory = "/dev/shm"
	tmpfs        = 0x01021994 // its magic number
	// memoryRoom is how many bytes must be free in memory before a server's
	// data goes there. Tests use a tenth of it.
	memoryRoom = 4 << 30
)

// memoryDir returns a folder in memory that has room for a server's data, or
// "". A container's usual 64 MB are none.
func memoryDir() string {
	if !isInMemory(sharedMemory, memoryRoom) || freeMemory() < memoryRoom {
		return ""
	}
	return sharedMemory
}

// isInMemory reports whether a folder is in memory, with so many bytes free.
func isInMemory(dir string, free uint64) bool {
	var stat syscall.Statfs_t
	return syscall.Statfs(dir, &stat) == nil && stat.Type == tmpfs &&
		stat.Bavail*uint64(stat.Bsize) >= free
}

// freeMemory returns how many bytes this process may still use: the machine
// has them, and the container's limit allows them. It is 0 if nothing tells.
func freeMemory() uint64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(info), "MemAvailable:")
	line, _, _ := strings.Cut(rest, "kB")
	kib, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0
	}
	free := kib << 10
	// "max", or no such files, is no limit.
	if limit, err := readBytes("/sys/fs/cgroup/memory.max"); err == nil {
		used, err := readBytes("/sys/fs/cgroup/memory.current")
		if err != nil || used > limit {
			return 0
		}
		free = min(free, limit-used)
	}
	return free
}

// readBytes returns the number that is a file's text.
func readBytes(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
}
