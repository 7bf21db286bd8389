package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

func benchDatabase(b *testing.B) *database {
	b.Helper()
	db, err := openDatabase(b.Context(), serveOwn, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.close()) })
	return db
}

// BenchmarkEnqueue: one call, of so many messages.
func BenchmarkEnqueue(b *testing.B) {
	db := benchDatabase(b)
	client := fifo.Open(db.pool, nil)
	defer func() { _ = client.Close() }()
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			msgs := make([]fifo.Message, n)
			for i := range msgs {
				msgs[i] = fifo.Message{Queue: queue, GroupID: groupID(i), Payload: "a payload of some bytes"}
			}
			for b.Loop() {
				_, err := client.Enqueue(b.Context(), msgs...)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

// BenchmarkWork: claim and settle of a job that does nothing.
func BenchmarkWork(b *testing.B) {
	db := benchDatabase(b)
	c := &crew{db: db, groups: 1000}
	c.prepare()
	for _, lanes := range []int{1, 16} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			c.lanes = lanes
			require.NoError(b, c.fill(b.Context(), b.N))
			took, err := c.work(b.Context(), b.N)
			require.NoError(b, err)
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/op") // without the dialing
			b.ReportMetric(float64(b.N)/took.Seconds(), "jobs/s")
		})
	}
}
