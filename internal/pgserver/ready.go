package pgserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// startTimeout bounds how long a server that runs may take to answer: slow
	// disks and loaded machines included.
	startTimeout = 60 * time.Second
	// connectTimeout bounds one attempt to connect.
	connectTimeout = 5 * time.Second
	// pollInterval is the pause between attempts. A local cluster answers some
	// 30 ms after its start.
	pollInterval = 20 * time.Millisecond
)

// errEnded is waitReady's error when there is nothing more to wait for.
var errEnded = errors.New("server ended before it answered")

// show connects and returns the value of a server setting.
func show(ctx context.Context, url, setting string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	var value string
	if err := conn.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&value); err != nil {
		return "", fmt.Errorf("read %s: %w", setting, err)
	}
	return value, nil
}

// waitReady returns nil once the server at url answers and its cluster_name is
// the one given: on a port that another server has taken, an answer would be
// that other's. It gives up when gone is closed (nil: never), at the context's
// end, or after startTimeout.
func waitReady(ctx context.Context, url, clusterName string, gone <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		name, err := show(ctx, url, "cluster_name")
		switch {
		case err == nil && name == clusterName:
			return nil
		case err == nil:
			last = fmt.Errorf("another server (cluster_name %q) answers there", name)
		case ctx.Err() == nil || last == nil: // a cut-off attempt tells less than the one before
			last = err
		}
		select {
		case <-gone:
			return fmt.Errorf("%w: %w", errEnded, last)
		case <-ctx.Done():
			return fmt.Errorf("server does not answer (%w): %w", ctx.Err(), last)
		case <-tick.C:
		}
	}
}

// superuser and password are those of every server started here. The password
// guards nothing: the official image insists on one.
const (
	superuser = "postgres"
	password  = "postgres"
)

// serverURL returns the URL of the database postgres of a server at host:port.
func serverURL(hostPort string) string {
	return "postgres://" + superuser + ":" + password + "@" + hostPort + "/postgres?sslmode=disable"
}
