package groups

import "strings"

// Spoiled reports whether a handler has changed the session for longer than its transaction: it ran SET without LOCAL,
// RESET, DISCARD, DEALLOCATE or LISTEN. The next job, of any queue, would meet that; RESET ALL takes away what bounds
// silence, too. So a spoiled lane is closed when its job is settled. So is one with another encoding, whichever way it
// was set: payloads are read in it. What else a function does, a temporary table or a session's advisory lock is not
// noticed.
func (l *Lane) Spoiled() bool { return l.wire.spoiled.Load() }

func (w *wire) look(sql string) {
	if spoils(sql) {
		w.spoiled.Store(true)
		w.deallocated.Store(true) // perhaps
	}
}

// spoils looks at the beginning of a statement.
func spoils(sql string) bool {
	word, rest := firstWord(sql)
	switch len(word) { // few statements of a handler get further
	case len("set"):
		if !strings.EqualFold(word, "set") {
			return false
		}
		word, _ = firstWord(rest)
		return !strings.EqualFold(word, "local") && !strings.EqualFold(word, "constraints") &&
			!strings.EqualFold(word, "transaction")
	case len("reset"), len("listen"), len("discard"), len("deallocate"):
		for _, w := range [...]string{"reset", "listen", "discard", "deallocate"} {
			if strings.EqualFold(word, w) {
				return true
			}
		}
	}
	return false
}

// firstWord skips comments: some write one in front of every statement.
func firstWord(sql string) (word, rest string) {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n;")
		end := ""
		switch {
		case strings.HasPrefix(sql, "--"):
			end = "\n"
		case strings.HasPrefix(sql, "/*"):
			end = "*/"
		}
		if end == "" {
			break
		}
		_, sql, _ = strings.Cut(sql[2:], end)
	}
	end := strings.IndexFunc(sql, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' })
	if end < 0 {
		end = len(sql)
	}
	return sql[:end], sql[end:]
}
