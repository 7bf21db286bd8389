package fifo_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A probe asks /readyz every now and then, as Kubernetes does.
func ExampleWorker_Ready() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	worker := &fifo.Worker{Client: client}
	worker.Handle("mail", func(ctx context.Context, job *fifo.Job) error { return nil })

	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := worker.Ready(); err != nil { // says what is missing: for the log, not for everybody
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	probe := func() int {
		response, err := http.Get(server.URL + "/readyz")
		if err != nil {
			log.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}

	fmt.Println("before Run:", probe())
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()
	for range time.Tick(10 * time.Millisecond) {
		if probe() == http.StatusOK {
			fmt.Println("it can find and take jobs")
			break
		}
	}
	stop()
	fmt.Println(<-ended)
	fmt.Println("after Run:", probe())
	// Output:
	// before Run: 503
	// it can find and take jobs
	// <nil>
	// after Run: 503
}
