package fifo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/jackc/pgx/v5"
)

// ContentID returns a Message.DedupID that is made of the payload: the SHA-256 of what is stored, in hexadecimal. It
// returns ErrInvalidMessage for a payload that does not encode.
//
// The group is no part of it, nor are headers: two accounts with equal payloads are duplicates of each other, unless
// the account is in the payload or the queue's ids are those of each group (Settings.DedupByGroup).
func ContentID(payload any) (string, error) {
	stored, err := encodePayload(payload)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(stored)
	return hex.EncodeToString(sum[:]), nil
}

// A slot says what became of a message: with an ID it is a duplicate of that job, else it is the n-th one of those that
// are new, or a duplicate of that.
type slot struct {
	n int
	Receipt
}

// enqueuePool enqueues on the pool: in a transaction, if it takes more than one statement.
func (c *Client) enqueuePool(ctx context.Context, b *batch) (ids []int64, err error) {
	if b.dedupIDs == nil {
		ids, _, err = c.enqueuePgx(ctx, pgxSession{c.pool}, b)
		return ids, err
	}
	err = pgx.BeginTxFunc(ctx, c.pool, readCommitted, func(tx pgx.Tx) error {
		ids, _, err = c.enqueuePgx(ctx, pgxSession{tx}, b)
		return err
	})
	return ids, err
}

// enqueueNew takes the messages that are duplicates out of the batch, and enqueues the others, if there are any.
func (c *Client) enqueueNew(ctx context.Context, db querier, b *batch) (ids []int64, xid int64, err error) {
	keys, err := c.dedup(ctx, db, b)
	if err != nil || len(keys) == 0 {
		return nil, 0, err
	}
	err = each(ctx, db, c.schema.Qualify("WITH job AS ("+enqueueSQL+")"+enqueueNewSQL), func(r row) error {
		var id int64
		err := r.Scan(&id, &xid)
		ids = append(ids, id)
		return err
	}, append(c.texts(b), byteaArray(keys))...)
	if err != nil {
		return nil, 0, err
	}
	return ids, xid, b.sort(ids)
}

// dedup takes the messages' deduplication ids, and replaces what waits. It leaves the messages that are new in the
// batch, and returns their keys.
func (c *Client) dedup(ctx context.Context, db querier, b *batch) (keys [][]byte, err error) {
	taken, jobs, groups := make([][]byte, len(b.queues)), make([]int64, len(b.queues)), b.dedupGroups()
	err = each(ctx, db, c.schema.Qualify(dedupSQL), func(r row) error {
		var n int
		var key []byte
		var job *int64
		if err := r.Scan(&n, &key, &job); err != nil {
			return err
		}
		taken[n-1] = key
		if job != nil {
			jobs[n-1] = *job
		}
		return nil
	}, textArray(b.queues), textArray(groups), textArray(b.dedupIDs),
		microseconds(Settings{}.withDefaults().DedupWindow))
	if err != nil {
		return nil, err
	}
	var kept, older []int
	firsts := make(map[string]int)
	b.slots = make([]slot, len(b.queues))
	for n, key := range taken {
		p, replace := &b.slots[n], b.replace != nil && b.replace[n]
		p.ID = jobs[n]
		if p.ID == 0 && key != nil {
			p.n, p.Duplicate = firsts[string(key)]
		}
		switch {
		case p.ID != 0:
			p.Duplicate = true
			if replace {
				older = append(older, n)
			}
		case !p.Duplicate:
			p.n = len(kept)
			kept, keys = append(kept, n), append(keys, key)
			if key != nil {
				firsts[string(key)] = p.n
			}
		case replace && groups[n] == groups[kept[p.n]]: // of this call: it is not stored yet
			p.Replaced = true
			first := kept[p.n]
			b.payloads[first] = b.payloads[n]
			if b.headers != nil {
				b.headers[first] = b.headers[n]
			}
		}
	}
	if len(older) > 0 {
		err = c.replace(ctx, db, b, older, pick(groups, older), pick(taken, older))
	}
	b.keep(kept)
	return keys, err
}

// replace gives jobs that wait the contents of those messages.
func (c *Client) replace(
	ctx context.Context, db querier, b *batch, messages []int, groups []string, keys [][]byte,
) error {
	return each(ctx, db, c.schema.Qualify(replaceSQL), func(r row) error {
		var i int
		var replaced bool
		err := r.Scan(&i, &replaced)
		if err == nil {
			b.slots[messages[i-1]].Replaced = replaced
		}
		return err
	}, textArray(pick(b.queues, messages)), textArray(groups), byteaArray(keys), byteaArray(pick(b.payloads, messages)),
		orNull(pick(b.headers, messages), nullableArray))
}

// dedupGroups are the messages' groups, or "" for those that are Ungrouped.
func (b *batch) dedupGroups() []string {
	groups := slices.Clone(b.groups)
	for n, alone := range b.ungrouped {
		if alone {
			groups[n] = ""
		}
	}
	return groups
}

// keep leaves those messages in the batch.
func (b *batch) keep(kept []int) {
	b.queues, b.groups, b.payloads = pick(b.queues, kept), pick(b.groups, kept), pick(b.payloads, kept)
	b.delays, b.maxAttempts = pick(b.delays, kept), pick(b.maxAttempts, kept)
	b.headers, b.runAts, b.priorities = pick(b.headers, kept), pick(b.runAts, kept), pick(b.priorities, kept)
	b.ungrouped = pick(b.ungrouped, kept)
}

// pick returns some items of a list, or nil of nil.
func pick[T any](items []T, kept []int) (some []T) {
	if items == nil {
		return nil
	}
	for _, n := range kept {
		some = append(some, items[n])
	}
	return some
}

// receipts returns the answer for the jobs that were made of the batch.
func (b *batch) receipts(ids []int64) []Receipt {
	if b.slots == nil {
		receipts := make([]Receipt, len(ids))
		for i, id := range ids {
			receipts[i].ID = id
		}
		return receipts
	}
	receipts := make([]Receipt, len(b.slots))
	for i, p := range b.slots {
		if receipts[i] = p.Receipt; p.ID == 0 {
			receipts[i].ID = ids[p.n]
		}
	}
	return receipts
}
