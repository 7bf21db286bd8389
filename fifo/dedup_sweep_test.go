package fifo_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

func TestContentID(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte(`{"a":1}`))
	want := hex.EncodeToString(sum[:])
	for _, payload := range []any{
		`{"a":1}`, []byte(`{"a":1}`), json.RawMessage(`{"a":1}`), map[string]int{"a": 1}, struct {
			A int `json:"a"`
		}{1},
	} {
		got, err := fifo.ContentID(payload)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := fifo.ContentID(func() {})
	require.ErrorIs(t, err, fifo.ErrInvalidMessage)
}

// Ids that have expired are swept in the background, a thousand in a transaction, and those that a producer has just
// taken are left.
func TestDedupIsSwept(t *testing.T) {
	b := newBed(t)
	b.exec(`INSERT INTO pgfifo.dedup_ids (key, job, expires) SELECT sha256(n::text::bytea), n,
		now() - interval '1 second' + CASE WHEN n > 2500 THEN interval '1 hour' ELSE '0' END
		FROM generate_series(1, 2600) n`)
	b.exec("INSERT INTO pgfifo.dedup_ids VALUES (sha256(convert_to(E'q\n\na', 'UTF8')), 7, '2000-01-01')")
	tx := b.begin()
	b.receiptsIn(tx, deduped("g", "a"))
	b.run(b.worker(nop, func(w *fifo.Worker) { w.SweepInterval = 10 * time.Millisecond }))
	await(t, "the sweep", func() bool { return b.count("dedup_ids") == 101 })
	require.NoError(t, tx.Commit(t.Context()))
	require.True(t, b.receipts(deduped("g", "a"))[0].Duplicate)
	await(t, "a job", func() bool { return len(b.ledger.order()) == 1 })
	require.Equal(t, 101, b.count("dedup_ids"))
}
