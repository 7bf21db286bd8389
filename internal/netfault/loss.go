package netfault

import (
	"regexp"
	"sync"
)

// What a server says when it has committed: a message of the protocol has its kind, its length and its body.
const (
	// aCommit is the answer to a COMMIT, in the simple and the extended protocol, and only if it did commit.
	aCommit = `C\x00{3}\x0bCOMMIT\x00`
	// aReply is all of an answer that says something, and that no transaction is open.
	aReply = `(?s)^.*%s.*Z\x00{3}\x05I$`
)

// A loss is answers that are to be lost, of whichever connection gets them first. The server sends a short one at once,
// so that it is in what is read at once.
type loss struct {
	mu         sync.Mutex
	answer     *regexp.Regexp
	left, lost int
}

// begin has the next n answers lost.
func (l *loss) begin(n int, answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.answer = n, regexp.MustCompile(answer)
}

// count returns how many were lost so far.
func (l *loss) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// take returns what arrives of what the server says, and whether an answer in it is lost, with all behind it.
func (l *loss) take(said []byte) (arrives []byte, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return said, false
	}
	at := l.answer.FindIndex(said)
	if at == nil {
		return said, false
	}
	l.left--
	l.lost++
	return said[:at[0]], true
}
