package lease

import (
	"strings"
	"unicode"
)

// Spoiled reports whether a handler has changed the session for longer than its transaction: it ran SET without LOCAL,
// RESET, DISCARD, DEALLOCATE, LISTEN, or DECLARE ... WITH HOLD. The next job, of any queue, would meet that; RESET ALL
// takes away what bounds silence, too. So a spoiled lane is closed when its job is settled. So is one with another
// encoding, whichever way it was set: payloads are read in it. What else a function does, a temporary table, a prepared
// statement or a session's advisory lock is not noticed.
func (l *Lane) Spoiled() bool { return l.wire.spoiled.Load() }

func (w *wire) look(sql string) {
	if spoils(sql) {
		w.spoiled.Store(true)
		w.deallocated.Store(true) // perhaps
	}
}

// spoils looks at what may begin a statement: the text, and what follows each semicolon in it, even a quoted one.
func spoils(sql string) bool {
	for more := true; more; _, sql, more = strings.Cut(sql, ";") {
		if beginsSpoiling(sql) {
			return true
		}
	}
	return false
}

func beginsSpoiling(sql string) bool {
	word, rest := firstWord(sql)
	switch len(word) { // few statements of a handler get further
	case len("set"):
		if !strings.EqualFold(word, "set") {
			return false
		}
		word, _ = firstWord(rest)
		return !strings.EqualFold(word, "local") && !strings.EqualFold(word, "constraints") &&
			!strings.EqualFold(word, "transaction")
	case len("declare"), len("reset"), len("listen"), len("deallocate"): // of discard, too
		if strings.EqualFold(word, "declare") {
			return strings.Contains(strings.ToLower(rest), "hold")
		}
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
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(sql, "--"):
			sql = sql[indexOr(len(sql), strings.IndexAny(sql, "\r\n")):]
		case strings.HasPrefix(sql, "/*"):
			sql = behindComment(sql)
		default:
			end := indexOr(len(sql), strings.IndexFunc(sql, endsWord))
			return sql[:end], sql[end:]
		}
	}
}

// endsWord says no of a dot: SET local.x is no SET LOCAL.
func endsWord(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_$.", r)
}

// behindComment skips a comment, with the comments in it.
func behindComment(sql string) string {
	for depth := 0; sql != ""; {
		switch {
		case strings.HasPrefix(sql, "/*"):
			depth, sql = depth+1, sql[2:]
		case strings.HasPrefix(sql, "*/"):
			depth, sql = depth-1, sql[2:]
		default:
			sql = sql[1:]
		}
		if depth == 0 {
			return sql
		}
	}
	return sql
}

// indexOr returns an index, or n if that is negative.
func indexOr(n, index int) int {
	if index < 0 {
		return n
	}
	return index
}
