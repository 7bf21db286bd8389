package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/pgfifo/pgfifo/internal/daemon"
)

// startEmbedded makes a temporary cluster with binaries that embedded-postgres
// downloads once and keeps below the home folder.
func (s *starter) startEmbedded(ctx context.Context) (*Server, error) {
	c, err := newCluster("") // memory may be no place to run programs from
	if err != nil {
		return nil, err
	}
	fetched := make(chan error, 1)
	go func() {
		dir, err := s.fetch(c.Dir)
		c.bin = dir
		fetched <- err
	}()
	select {
	case err := <-fetched:
		if err != nil {
			return nil, errors.Join(fmt.Errorf("embedded-postgres: %w", err), c.close())
		}
		return s.startCluster(ctx, c)
	case <-ctx.Done():
		go func() { // a download knows no context, and no one is left to hear of its end
			_ = errors.Join(<-fetched, c.close())
		}()
		return nil, fmt.Errorf("embedded-postgres: %w", ctx.Err())
	}
}

// fetch puts PostgreSQL's binaries below dir and returns their folder.
//
// embedded-postgres has no call for this alone, and the server that it starts
// cannot be another user's, as it must be if we are root. So it is told to
// start a server from data that no server starts from: it fetches, and fails.
func (s *starter) fetch(dir string) (bin string, err error) {
	const version = embeddedpostgres.V17
	port, err := daemon.FreePort()
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, "no-data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return "", err
	}
	// By this file embedded-postgres knows that initdb has been here.
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(version), 0o600); err != nil {
		return "", err
	}
	home := filepath.Join(dir, "postgres")
	var log bytes.Buffer
	config := embeddedpostgres.DefaultConfig().
		Version(version).
		Port(uint32(port)).
		BinariesPath(home).
		RuntimePath(filepath.Join(dir, "no-run")).
		DataPath(data).
		Logger(&log)
	if s.embeddedURL != "" {
		config = config.BinaryRepositoryURL(s.embeddedURL).CachePath(filepath.Join(dir, "cache"))
	}
	err = embeddedpostgres.NewDatabase(config).Start()
	if bin = filepath.Join(home, "bin"); hasBinaries(bin) {
		return bin, nil
	}
	if err == nil {
		err = errors.New("what was fetched has no initdb and postgres")
	}
	return "", err
}
