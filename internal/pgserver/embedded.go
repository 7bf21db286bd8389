package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// startEmbedded makes a temporary cluster with binaries that embedded-postgres
// downloads once and keeps below the home folder.
func (s *starter) startEmbedded(ctx context.Context) (*Server, error) {
	if runsAsRoot() {
		// Said before the download, which would be for nothing.
		return nil, errors.New("embedded-postgres runs initdb as this process's user, and initdb refuses root")
	}
	dir, err := os.MkdirTemp("", "pgfifo-")
	if err != nil {
		return nil, err
	}
	guard, err := newGuard(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	url, stop, err := s.runEmbedded(ctx, dir, guard)
	if err != nil {
		return nil, err
	}
	return &Server{URL: url, stop: stop}, nil
}

// runEmbedded starts embedded-postgres in dir. Its Start knows no context: at
// the context's end it is left to end by itself, and is cleaned up then.
func (s *starter) runEmbedded(ctx context.Context, dir string, guard *guard) (string, func() error, error) {
	clean := func() error { return errors.Join(os.RemoveAll(dir), guard.release()) }
	port, err := freePort()
	if err != nil {
		return "", nil, errors.Join(err, clean())
	}
	name := filepath.Base(dir)
	set := s.opts.settings()
	maps.Copy(set, loopbackOnly(port, name))
	delete(set, "port") // embedded-postgres sets it
	var log bytes.Buffer
	config := embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.V17).
		Port(uint32(port)).
		Username(superuser).Password(password).Database("postgres").
		RuntimePath(filepath.Join(dir, "run")).
		DataPath(filepath.Join(dir, "data")).
		StartParameters(set).
		StartTimeout(startTimeout).
		Logger(&log)
	if s.embeddedURL != "" {
		config = config.BinaryRepositoryURL(s.embeddedURL).CachePath(filepath.Join(dir, "cache"))
	}
	db := embeddedpostgres.NewDatabase(config)
	stop := func() error {
		err := db.Stop()
		if err == nil {
			guard.watch(0) // otherwise the guard has one more try at it
		}
		return errors.Join(err, clean())
	}

	started := make(chan error, 1)
	go func() { started <- db.Start() }()
	select {
	case err = <-started:
	case <-ctx.Done():
		go func() {
			if <-started == nil {
				_ = stop() // no one is left to hear of it
			} else {
				_ = clean()
			}
		}()
		return "", nil, fmt.Errorf("embedded-postgres: %w", ctx.Err())
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("embedded-postgres: %w", err), clean())
	}
	guard.watch(postmasterPID(filepath.Join(dir, "data")))
	url := serverURL(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err := waitReady(ctx, url, name, nil); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return url, stop, nil
}

// postmasterPID returns the process id of the server of a data folder; 0 if
// none runs.
func postmasterPID(data string) int {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0
	}
	return pid
}
