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

// headColumns are what statements are told of heads, as parameters: one array each, pairwise.
type headColumns struct{ queues, groups, tokens, jobs []byte }

func columnsOf(heads []*Held) headColumns {
	var queues, groups, tokens, jobs array
	for _, h := range heads {
		queues.string(h.Queue)
		groups.string(h.GroupID)
		tokens.int(h.token)
		jobs.int(h.ID)
	}
	return headColumns{queues.bytes(), groups.bytes(), tokens.bytes(), jobs.bytes()}
}
