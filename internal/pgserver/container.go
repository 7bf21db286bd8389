package pgserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// containerLife is how long a container whose test run was killed stays.
const containerLife = 900 * time.Second

// container is a running container, watched until its end.
type container struct {
	pool *dockertest.Pool
	res  *dockertest.Resource
	log  logTail
	gone chan struct{} // closed when the container has ended
	done sync.WaitGroup
}

func newContainer(pool *dockertest.Pool, res *dockertest.Resource) *container {
	c := &container{pool: pool, res: res, gone: make(chan struct{})}
	// What dockertest's Expire does, but waited for in close: the daemon stops
	// the container when the time is up, whether or not we still live.
	c.done.Go(func() {
		_ = pool.Client.StopContainer(res.Container.ID, uint(containerLife/time.Second))
	})
	c.done.Go(func() {
		defer close(c.gone)
		_, _ = pool.Client.WaitContainer(res.Container.ID)
	})
	// The log is read while it is written: a container that fails is removed
	// at once, with its log.
	c.done.Go(func() {
		_ = pool.Client.Logs(docker.LogsOptions{
			Context:   context.Background(),
			Container: res.Container.ID, Follow: true, Stdout: true, Stderr: true,
			OutputStream: &c.log, ErrorStream: &c.log,
		})
	})
	return c
}

// close removes the container and waits until nothing of it is left.
func (c *container) close() error {
	err := c.pool.Purge(c.res)
	var gone *docker.NoSuchContainer
	if errors.As(err, &gone) {
		err = nil // it ended by itself and was removed then
	}
	if err != nil {
		return fmt.Errorf("pgserver: remove container: %w", err)
	}
	c.done.Wait()
	c.pool.Client.HTTPClient.CloseIdleConnections()
	return nil
}
