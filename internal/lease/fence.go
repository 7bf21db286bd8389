package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
)

// fences are the fencing tokens of a claim, as far as they are known.
type fences struct {
	mu     sync.Mutex // held while one is drawn
	tokens map[groups.Key]int64
}

func (f *fences) add(key groups.Key, token int64) {
	if f.tokens == nil {
		f.tokens = make(map[groups.Key]int64, 1)
	}
	f.tokens[key] = token
}

// drawToken draws one in a transaction of its own, in one round trip. READ COMMITTED, whatever the database's default
// is: a former holder may be drawing, and then this waits for it.
func drawToken(ctx context.Context, on *Lane, key groups.Key, xid string) (token int64, err error) {
	var b pgx.Batch
	b.Queue(beginSQL)
	b.Queue(on.schema.Qualify(statement("fence")), key.Queue, key.GroupID, xid).QueryRow(func(row pgx.Row) error {
		return row.Scan(&token)
	})
	b.Queue(commitSQL)
	err = on.control.SendBatch(ctx, &b).Close()
	return token, err
}

// fenceError returns an error as Fence does: it is ErrLost if the claim's transaction has ended, or if the server has
// lost its newest commits and never heard of it.
func fenceError(err error, closed bool) error {
	if errors.Is(err, pgx.ErrNoRows) || sqlState(err) == "22023" || closed {
		err = errors.Join(ErrLost, err)
	}
	return fmt.Errorf("lease: fence: %w", err)
}
