package torture

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A kind says what happened.
type kind uint8

// What workers log, with what arg and word mean.
const (
	evStart    kind = iota // a handler began with a job; arg: its message's number; word: what it is to do
	evTx                   // it has the transaction; arg: the server process
	evMark                 // its attempt was marked before; arg: by which transaction
	evFence                // it has its fencing token; arg: that
	evWrite                // it called the sink; arg: the token; word: accepted or refused
	evSpawn                // it enqueued a job in its transaction; arg: that job's number; word: its id
	evRows                 // it has rows open from now on; arg: of so many bytes
	evRead                 // it has read them
	evEnd                  // it ended; word: ok, away, or why not
	evLost                 // its context was cancelled with ErrLost
	evTold                 // its context was cancelled with ErrJobTimeout
	evAmiss                // the session of its transaction is not as it should be; word: what is wrong
	evSettled              // the job's outcome; word: that
	evExit                 // the process is about to end itself
	evStall                // the process did not get to run; arg: for how long
	evTrouble              // the library logged a warning or an error
	evDown                 // the worker has stopped as told
	evLeft                 // and has looked at what it has left behind; arg: how many things; word: those
	evPrepared             // a handler has looked at its session; arg: how many prepared statements it has
	evMemory               // what the process has; arg: bytes; word: of what
)

var kindNames = []string{
	"start", "tx", "mark", "fence", "write", "spawn", "rows", "read", "end", "lost", "told", "amiss", "settled",
	"exit", "stall", "trouble", "down", "left", "prepared", "memory",
}

func (k kind) String() string { return kindNames[k] }

// An event is a line of a worker's log.
type event struct {
	at      int64
	job     int64
	arg     int64
	word    string
	group   int32
	attempt int32
	proc    int32 // the index of the process among history.procs
	kind    kind
}

// A journal is the event log of one process: one write is one line.
type journal struct {
	mu   sync.Mutex
	file *os.File
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file: file}, err
}

// write appends an event.
func (j *journal) write(k kind, group int32, job int64, attempt int, arg int64, word string) {
	j.line("%v %d %d %d %d %s", k, group, job, attempt, arg, word)
}

// line appends a line as of now. A log that cannot be written makes the run worthless, so it ends the process.
func (j *journal) line(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := now()
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	if _, err := fmt.Fprintf(j.file, "%d %s\n", at, text); err != nil { // which is one write
		fmt.Fprintln(os.Stderr, "torture: event log:", err)
		os.Exit(3)
	}
}

// log is told what the library logs.
func (j *journal) log(line string) { j.line("log 0 - %s", line) }

// lines calls f with each whole line of a log. The last one may be cut off: its process was killed as it wrote over the
// end of a page, or the disk was full.
func lines(path string, f func(line string) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			break
		}
		if err := f(string(line)); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return nil
}

// readEvents reads the log of a worker process.
func readEvents(path string, proc int32) (events []event, err error) {
	words := make(map[string]string)
	err = lines(path, func(line string) error {
		f := strings.SplitN(line, " ", 7)
		if len(f) != 7 {
			return fmt.Errorf("%d fields in %q", len(f), line)
		}
		var n [5]int64
		for i, at := range []int{0, 2, 3, 4, 5} {
			if n[i], err = strconv.ParseInt(f[at], 10, 64); err != nil {
				return err
			}
		}
		k := slices.Index(kindNames, f[1])
		if k < 0 {
			return fmt.Errorf("event %q", f[1])
		}
		if _, ok := words[f[6]]; !ok { // not to keep the line
			words[f[6]] = strings.Clone(f[6])
		}
		events = append(events, event{
			at: n[0], kind: kind(k), group: int32(n[1]), job: n[2], attempt: int32(n[3]), arg: n[4],
			word: words[f[6]], proc: proc,
		})
		return nil
	})
	return events, err
}
