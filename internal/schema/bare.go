package schema

import "strings"

// Bare returns a statement of the library as a driver may have it that looks for $1 in the text by itself, and writes
// the argument there as a literal: bun's own does. It knows strings, but not that a doubled quote does not end one, and
// neither comments nor quoted identifiers. An apostrophe in these begins a string, in which a $1 stays; and an argument
// with a newline would end the comment that it is written into. So there are no comments in what Bare returns, and
// apostrophes and dollars, which a schema's name may have, are escaped.
func Bare(sql string) string {
	var bare strings.Builder
	bare.Grow(len(sql))
	for {
		i := strings.IndexAny(sql, `'"-`)
		if i < 0 {
			bare.WriteString(sql)
			return bare.String()
		}
		bare.WriteString(sql[:i])
		part := sql[i : i+partLen(sql[i:])]
		sql = sql[i+len(part):]
		switch {
		case strings.HasPrefix(part, "--"):
		case part[0] == '"' && strings.ContainsAny(part, "'$"):
			bare.WriteString("U&" + identEscaper.Replace(part))
		case part[0] == '\'' && strings.Contains(part[1:len(part)-1], "''"):
			bare.WriteString("E'" + stringEscaper.Replace(part[1:len(part)-1]) + "'")
		default:
			bare.WriteString(part)
		}
	}
}

var (
	identEscaper  = strings.NewReplacer(`\`, `\\`, "'", `\0027`, "$", `\0024`)
	stringEscaper = strings.NewReplacer(`\`, `\\`, "''", `\x27`)
)

// partLen returns the length of the string, identifier or comment with which a text begins, or 1 for a minus.
func partLen(sql string) int {
	if strings.HasPrefix(sql, "--") {
		line, _, _ := strings.Cut(sql, "\n")
		return len(line)
	}
	if sql[0] == '-' {
		return 1
	}
	for end := 1; end < len(sql); end++ {
		if sql[end] != sql[0] {
			continue
		}
		if !strings.HasPrefix(sql[end+1:], sql[:1]) {
			return end + 1
		}
		end++ // doubled
	}
	return len(sql)
}
