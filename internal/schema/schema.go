// Package schema names the PostgreSQL schema that the library's tables live in.
//
// Every statement of the library is written for the schema "pgfifo", qualified, so that it runs in psql as it stands
// and does not depend on a search_path that belongs to the caller. For any other schema the qualifier, and the name at
// the front of a lock's key, are replaced, and nothing else.
package schema

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Default is the schema that the statements are written for.
const Default = "pgfifo"

// ErrInvalid is returned by Parse for a name that PostgreSQL could not keep as it is.
var ErrInvalid = errors.New("invalid schema name")

// maxLen is NAMEDATALEN-1: PostgreSQL cuts longer identifiers without an error.
const maxLen = 63

// quoteTag finds the dollar quotes around functions whose text has the schema's name in it. A name that has one in it
// would end that text.
var quoteTag = regexp.MustCompile(`\$(block|enqueue|failure|held|range|replace|runs|take)\$`)

// A Name is a checked schema name. The zero value is the default schema.
type Name struct{ name string }

// Parse checks a schema name. The empty string means Default.
func Parse(name string) (Name, error) {
	switch {
	case name == "":
		return Name{}, nil
	case len(name) > maxLen:
		return Name{}, fmt.Errorf("%w: %d bytes, at most %d", ErrInvalid, len(name), maxLen)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return Name{}, fmt.Errorf("%w: %q is not valid UTF-8 text", ErrInvalid, name)
	case quoteTag.MatchString(name):
		return Name{}, fmt.Errorf("%w: %q has a dollar quote of the schema's functions in it", ErrInvalid, name)
	case strings.HasPrefix(name, "pg_"):
		return Name{}, fmt.Errorf("%w: %q: the prefix pg_ is PostgreSQL's own", ErrInvalid, name)
	}
	return Name{name}, nil
}

// String returns the name as it is, unquoted.
func (n Name) String() string { return cmp.Or(n.name, Default) }

// Ident returns the name as a quoted SQL identifier.
func (n Name) Ident() string { return pgx.Identifier{n.String()}.Sanitize() }

// Qualify returns a statement written for the default schema with its qualifier replaced by n, also where a string
// begins with it: the name of a sequence, say. So is the name that begins a string before a space: the key of an
// advisory lock, which all schemas of a database share.
func (n Name) Qualify(sql string) string {
	if n.String() == Default {
		return sql
	}
	ident := n.Ident()
	quoted := strings.ReplaceAll(ident, "'", "''")
	return strings.NewReplacer(
		"'"+Default+".", "'"+quoted+".",
		"'"+Default+" ", "'"+quoted+" ",
		Default+".", ident+".",
	).Replace(sql)
}
