// Package receipt is for tests and measurements, which know jobs by their ids.
package receipt

import "github.com/pgfifo/pgfifo/fifo"

// IDs returns the ids of what was enqueued: it takes what Enqueue returns.
func IDs(receipts []fifo.Receipt, err error) ([]int64, error) {
	ids := make([]int64, len(receipts))
	for i, r := range receipts {
		ids[i] = r.ID
	}
	return ids, err
}
