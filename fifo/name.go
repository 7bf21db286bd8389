package fifo

import (
	"fmt"
	"os"
	"strconv"
)

// maxNameBytes is how much of an application_name a server keeps.
const maxNameBytes = 63

// workerName returns what a worker is known by, as application_name and in failures.
func workerName(w *Worker) (string, error) {
	if !storable(w.Name) {
		return "", fmt.Errorf("%w: Name %q is not valid UTF-8, or has a NUL", ErrInvalidWorker, w.Name)
	}
	name := w.Name
	if name == "" && w.Client != nil {
		name = w.Client.pool.Config().ConnConfig.RuntimeParams[applicationName]
	}
	if name == "" {
		host, _ := os.Hostname()
		name = nameOfProcess(host, os.Getpid())
	}
	return shapeName(name), nil
}

// nameOfProcess is "pgfifo host:pid". A long host is cut.
func nameOfProcess(host string, pid int) string {
	const before = "pgfifo "
	after := ":" + strconv.Itoa(pid)
	return before + host[:min(len(host), maxNameBytes-len(before)-len(after))] + after
}

// shapeName turns a name into one that every server leaves as it is: printable ASCII of at most maxNameBytes. Servers
// differ in what they make of other bytes.
func shapeName(name string) string {
	shaped := []byte(name[:min(len(name), maxNameBytes)])
	for i, b := range shaped {
		if b < ' ' || b > '~' {
			shaped[i] = '?'
		}
	}
	return string(shaped)
}
