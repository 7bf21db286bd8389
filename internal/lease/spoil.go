package lease

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
)

// ownPrefix begins the names of the statements that a lane prepares.
const ownPrefix = "pgfifo_"

// A spoil says what statements have done to a session, as far as their texts tell.
type spoil struct {
	spoiled     atomic.Bool // one changed it for longer than its transaction
	deallocated atomic.Bool // one took prepared statements away
}

// inspect looks at a message with a statement's text, whoever sends it: Query, or Parse, where a name is in front.
func (s *spoil) inspect(msg []byte, kind byte) {
	whole := len(msg) > headSize && msg[0] == kind && int(binary.BigEndian.Uint32(msg[1:])) == len(msg)-1
	if whole {
		msg = msg[headSize:]
		if kind == 'P' {
			var name []byte
			name, msg, _ = bytes.Cut(msg, []byte{0})
			if bytes.HasPrefix(name, []byte(ownPrefix)) { // the lane's own, which may name a schema with a semicolon
				return
			}
		}
		msg, _, _ = bytes.Cut(msg, []byte{0})
	}
	if !whole || spoils(string(msg)) { // pgx sends none in parts
		s.spoiled.Store(true)
		s.deallocated.Store(true) // perhaps
	}
}

// spoils looks at what may begin a statement: the text, and what follows each semicolon in it, even a quoted one.
func spoils(sql string) bool {
	if setsConfig(sql) {
		return true
	}
	for more := true; more; _, sql, more = strings.Cut(sql, ";") {
		if beginsSpoiling(sql) {
			return true
		}
	}
	return false
}

// setsConfig looks for set_config, as it is mostly written, with a false behind it: anywhere in the text.
func setsConfig(sql string) bool {
	for _, name := range [...]string{"set_config", "SET_CONFIG"} {
		if i := strings.Index(sql, name); i >= 0 && strings.Contains(strings.ToLower(sql[i:]), "false") {
			return true
		}
	}
	return false
}

func beginsSpoiling(sql string) bool {
	word, rest := firstWord(sql)
	switch strings.ToLower(word) {
	case "reset", "listen", "discard", "deallocate":
		return true
	case "declare":
		return strings.Contains(strings.ToLower(rest), "hold")
	case "set":
		word, _ = firstWord(rest)
		return !slices.Contains([]string{"local", "constraints", "transaction"}, strings.ToLower(word))
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

// endsWord returns false for a dot: SET local.x is no SET LOCAL.
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
