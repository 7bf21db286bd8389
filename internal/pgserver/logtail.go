package pgserver

import (
	"bytes"
	"strings"
	"sync"
)

// logTail keeps the end of what is written to it.
type logTail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const logTailBytes = 2000

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(p)
	if over := l.buf.Len() - logTailBytes; over > 0 {
		l.buf.Next(over)
	}
	return len(p), nil
}

// tail returns the text for the end of an error message: "" if there is none.
func (l *logTail) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len() == 0 {
		return ""
	}
	return "\nits log ends:\n" + strings.TrimSpace(l.buf.String())
}
