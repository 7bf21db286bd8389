package fifo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// ContentID returns a Message.DedupID that is made of the payload: the SHA-256 of what is stored, in hexadecimal. It
// returns ErrInvalidMessage for a payload that does not encode, or of which JSON has nothing: see Message.Payload.
// Fields that JSON does not see make no difference.
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

// dedup takes the messages' deduplication ids, and replaces what waits. It returns those that are new.
func (in inserter) dedup(ctx context.Context, b batch) (fresh batch, err error) {
	err = each(ctx, in.db, in.schema.Qualify(statement("dedup")), func(r row) error {
		var n int
		var key []byte
		var job *int64
		if err := r.Scan(&n, &key, &job); err != nil {
			return err
		}
		b[n-1].key = key
		if job != nil {
			b[n-1].ID = *job
		}
		return nil
	}, b.queues(), b.dedupGroups(), column(b, func(e *entry) string { return e.dedupID }),
		microseconds(Settings{}.withDefaults().DedupWindow))
	if err != nil {
		return nil, err
	}
	var older batch
	firsts := make(map[string]*entry)
	for _, e := range b {
		e.first = firsts[string(e.key)]
		e.Duplicate = e.ID != 0 || e.first != nil
		switch {
		case !e.Duplicate:
			fresh = append(fresh, e)
			if e.key != nil {
				firsts[string(e.key)] = e
			}
		case !e.replace:
		case e.ID != 0:
			older = append(older, e)
		case e.dedupGroup() == e.first.dedupGroup(): // it is not stored yet
			e.Replaced = true
			e.first.payload, e.first.headers = e.payload, e.headers
		}
	}
	if len(older) > 0 {
		err = in.replace(ctx, older)
	}
	return fresh, err
}

// replace gives jobs that wait the contents of these messages.
func (in inserter) replace(ctx context.Context, b batch) error {
	return each(ctx, in.db, in.schema.Qualify(statement("replace")), func(r row) error {
		var n int
		var replaced bool
		err := r.Scan(&n, &replaced)
		if err == nil {
			b[n-1].Replaced = replaced
		}
		return err
	}, b.queues(), b.dedupGroups(), b.keys(), b.payloads(), b.headers())
}

func (b batch) keys() [][]byte { return column(b, func(e *entry) []byte { return e.key }) }

func (b batch) dedupGroups() []string { return column(b, (*entry).dedupGroup) }

// dedupGroup is the message's group, or "" if it is Ungrouped.
func (e *entry) dedupGroup() string {
	if e.ungrouped {
		return ""
	}
	return e.group
}

func (b batch) deduplicates() bool {
	return slices.ContainsFunc(b, func(e *entry) bool { return e.dedupID != "" })
}
