package torture

import (
	"os"
	"strings"
)

// logPrefix begins each line of the server's log: with who, and the SQLSTATE.
const logPrefix = "%m [%p] %d %a %e "

// A serverLog is what the server's log says of the run's sessions.
type serverLog struct {
	serverErrors []serverError
	logged       bool // there was one
}

// A serverError is a line of the server's log, with its statement if that follows. who is blocked by whom follows a
// deadlock.
type serverError struct {
	who, state, text, blocked string
}

// readServerLog keeps a copy of the log, and reads it.
func (h *history) readServerLog(path, database, copyTo string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(copyTo, text, 0o600); err != nil {
		return err
	}
	h.logged = true
	return lines(copyTo, func(line string) error {
		if e, ok := parseServerLine(line, database); ok {
			h.serverErrors = append(h.serverErrors, e)
		} else if n := len(h.serverErrors); n > 0 {
			h.serverErrors[n-1].more(line)
		}
		return nil
	})
}

// more adds a line that follows.
func (e *serverError) more(line string) {
	if _, statement, ok := strings.Cut(line, " STATEMENT: "); ok && !strings.Contains(e.text, " in: ") {
		e.text += " in: " + strings.TrimSpace(statement)
		return
	}
	_, detail, _ := strings.Cut(line, " DETAIL: ")
	for _, text := range []string{detail, line} {
		if text = strings.TrimSpace(text); e.state == "40P01" && strings.HasPrefix(text, "Process ") {
			e.blocked += text + "; "
		}
	}
}

// parseServerLine reads "date time zone [pid] database application sqlstate LEVEL:  text".
func parseServerLine(line, database string) (serverError, bool) {
	f := strings.SplitN(line, " ", 8)
	if len(f) < 8 || f[4] != database {
		return serverError{}, false
	}
	level, text, ok := strings.Cut(f[7], ":  ")
	if !ok || level != "ERROR" && level != "FATAL" && level != "PANIC" {
		return serverError{}, false
	}
	return serverError{who: f[5], state: f[6], text: level + ": " + text}, true
}
