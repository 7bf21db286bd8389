package lease

import "strconv"

// An array is a parameter in text format. The zero value is empty.
type array struct{ text []byte }

func (a *array) next() {
	if a.text == nil {
		a.text = append(make([]byte, 0, 64), '{')
	} else {
		a.text = append(a.text, ',')
	}
}

func (a *array) string(s string) {
	a.next()
	a.text = append(a.text, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			a.text = append(a.text, '\\')
		}
		a.text = append(a.text, s[i])
	}
	a.text = append(a.text, '"')
}

func (a *array) int(n int64) {
	a.next()
	a.text = strconv.AppendInt(a.text, n, 10)
}

func (a *array) bytes() []byte {
	if a.text == nil {
		return []byte("{}")
	}
	return append(a.text, '}')
}

// headArgs returns the queues, the group ids, the tokens and the ids of jobs, pairwise.
func headArgs(heads []*Held) [][]byte {
	var queues, ids, tokens, jobs array
	for _, h := range heads {
		queues.string(h.Queue)
		ids.string(h.GroupID)
		tokens.int(h.token)
		jobs.int(h.ID)
	}
	return [][]byte{queues.bytes(), ids.bytes(), tokens.bytes(), jobs.bytes()}
}
