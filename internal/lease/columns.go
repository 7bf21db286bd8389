package lease

import "github.com/pgfifo/pgfifo/internal/array"

// headColumns are what statements are told of heads, as parameters: one array each, pairwise.
type headColumns struct{ queues, groups, tokens, jobs []byte }

func columnsOf(heads []*Held) headColumns {
	return headColumns{
		queues: array.Texts(heads, func(h *Held) string { return h.Queue }),
		groups: array.Texts(heads, func(h *Held) string { return h.GroupID }),
		tokens: array.Ints(heads, func(h *Held) int64 { return h.token }),
		jobs:   array.Ints(heads, func(h *Held) int64 { return h.ID }),
	}
}
