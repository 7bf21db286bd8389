// Package pgserver provides a real PostgreSQL server to tests, examples and
// benchmarks, from the first of these sources that works:
//
//  1. url: the server that DATABASE_URL names. Once the variable is set it is
//     that server or an error, never another source.
//  2. docker: a container, if a Docker daemon answers and the image
//     (PGFIFO_POSTGRES_IMAGE, default postgres:17) is there or can be pulled.
//  3. local: a temporary cluster of the PostgreSQL installed on this machine.
//  4. embedded: a temporary cluster of downloaded binaries.
//
// PGFIFO_POSTGRES=url|docker|local|embedded takes that one source only, and
// its failure is the failure.
//
// A local cluster is in memory (/dev/shm, if 4 GiB are free there), unless its
// Options say Durable or TMPDIR says where temporary files are.
//
// Servers started here listen on 127.0.0.1 only (a container on a remote
// daemon: on the daemon's host; see also Options.Listen), take 300
// connections, and go away with the process that started them, even when it is
// killed: a local or embedded cluster at once (on Unix), a container after 15
// minutes.
package pgserver

import (
	"context"
	"os"
	"sync"
)

// The environment variables that Start reads, besides those of Docker.
const (
	// EnvURL is the connection URL of a server to use instead of starting one.
	EnvURL = "DATABASE_URL"
	// EnvSource forces one source: url, docker, local or embedded.
	EnvSource = "PGFIFO_POSTGRES"
	// EnvImage is the image for Docker; the default is DefaultImage.
	EnvImage = "PGFIFO_POSTGRES_IMAGE"
)

// DefaultImage is the Docker image when PGFIFO_POSTGRES_IMAGE is not set. Any
// other must behave like it: POSTGRES_PASSWORD, and the server's arguments.
const DefaultImage = "postgres:17"

// Options say what kind of server is wanted. The zero value is good for most
// tests. A server named by DATABASE_URL is taken as it is, whatever is said
// here of Durable and Settings.
type Options struct {
	// Durable turns fsync, synchronous_commit and full_page_writes on. They
	// are off by default, and a local cluster's data may be in memory: faster,
	// and a test's data need not survive a crash.
	Durable bool
	// Settings are further server settings by name, such as
	// "max_locks_per_transaction": "256". They override this package's
	// defaults, but not where the server listens.
	Settings map[string]string
	// Listen are further addresses of this machine, such as "10.1.2.1", at which
	// a local server listens beside 127.0.0.1, for everybody in their networks.
	// The other sources leave them out.
	Listen []string
	// Logf is told which source was chosen, its version, and why each earlier
	// source was passed over. The default is silence.
	Logf func(format string, args ...any)
}

// Server is a running PostgreSQL server. Whoever called Start closes it.
type Server struct {
	// URL connects to the database postgres as a superuser (from
	// DATABASE_URL: to whatever it says, as whoever it says).
	URL string
	// Source is "url", "docker", "local" or "embedded".
	Source string
	// Version is the server_version that the server reports, such as "17.2".
	Version string
	// Log is the file that the server writes its log to, or "" if that is not
	// at hand. It goes with Close.
	Log string

	// Halt ends the server as a crash does: at once, without the niceties of a
	// shutdown. Its data stays as it was. Resume starts it again, at the same
	// URL, and waits until it has recovered and answers. Neither may run beside
	// the other or Close. Both are nil of a server that is not ours to end: one
	// that DATABASE_URL names, or Docker runs.
	Halt   func() error
	Resume func(context.Context) error

	stop     func() error
	stopOnce sync.Once
	stopErr  error
}

// Start returns a server that answers, from the first source that works (see
// the package's text). Options may be nil. The context bounds the start only;
// the server runs until Close, or until this process ends.
//
// The error names every source tried, why it failed, and what to do about it;
// errors.Is sees each reason.
func Start(ctx context.Context, opts *Options) (*Server, error) {
	return newStarter(opts, os.Getenv).start(ctx)
}

// Close stops the server and removes all that it left on disk; for a server
// named by DATABASE_URL it does nothing. Further calls return the first one's
// result.
func (s *Server) Close() error {
	s.stopOnce.Do(func() {
		if s.stop != nil {
			s.stopErr = s.stop()
		}
	})
	return s.stopErr
}
