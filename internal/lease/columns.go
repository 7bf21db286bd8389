package lease

import "github.com/pgfifo/pgfifo/internal/array"

// headColumns are what statements are told of heads, as parameters: one array each, pairwise.
type headColumns struct{ queues, groups, tokens, jobs []byte }

func columnsOf(heads []*Held) headColumns {
	return headColumns{
		queues: array.Of(heads, func(to []byte, h *Held) []byte { return array.Text(to, h.Queue) }),
		groups: array.Of(heads, func(to []byte, h *Held) []byte { return array.Text(to, h.GroupID) }),
		tokens: array.Of(heads, func(to []byte, h *Held) []byte { return array.Int(to, h.token) }),
		jobs:   array.Of(heads, func(to []byte, h *Held) []byte { return array.Int(to, h.ID) }),
	}
}
