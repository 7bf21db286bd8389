package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

const (
	dockerPingTimeout = 3 * time.Second
	// dockerPullTimeout bounds the download of an image that isn't there.
	dockerPullTimeout = 5 * time.Minute
	dockerPort        = "5432/tcp"
)

// startDocker runs a container with dockertest.
func (s *starter) startDocker(ctx context.Context) (*Server, error) {
	pool, err := dockertest.NewPool(s.getenv("DOCKER_HOST"))
	if err != nil {
		return nil, fmt.Errorf("docker client: %w", err)
	}
	if err := ping(ctx, pool); err != nil {
		return nil, err
	}
	image := s.getenv(EnvImage)
	if image == "" {
		image = DefaultImage
	}
	if err := s.ensureImage(ctx, pool, image); err != nil {
		return nil, err
	}

	set := s.opts.settings()
	name := "pgfifo-docker"
	set["cluster_name"] = name
	repository, tag := docker.ParseRepositoryTag(image)
	host, bind := dockerHost(pool.Client.Endpoint())
	res, err := pool.RunWithOptions(&dockertest.RunOptions{
		Repository: repository,
		Tag:        tag,
		Env:        []string{"POSTGRES_USER=" + superuser, "POSTGRES_PASSWORD=" + password},
		// What follows the program's name goes to the server as it is.
		Cmd:          append([]string{"postgres"}, args(set)...),
		ExposedPorts: []string{dockerPort},
		PortBindings: map[docker.Port][]docker.PortBinding{dockerPort: {{HostIP: bind, HostPort: "0"}}},
	}, func(h *docker.HostConfig) {
		h.AutoRemove = true
		h.ShmSize = 256 << 20 // Docker's 64 MB is little for parallel queries
	})
	if err != nil {
		return nil, fmt.Errorf("run a container of %s: %w", image, err)
	}
	box := newContainer(pool, res)
	url := serverURL(net.JoinHostPort(host, res.GetPort(dockerPort)))
	// Until the image has made its cluster, only Docker's own proxy answers.
	if err := waitReady(ctx, url, name, box.gone); err != nil {
		_ = box.close() // the first error tells more
		return nil, fmt.Errorf("container of %s: %w%s", image, err, box.log.tail())
	}
	return &Server{URL: url, stop: box.close}, nil
}

// ping asks whether a daemon is there: making a client doesn't.
func ping(ctx context.Context, pool *dockertest.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, dockerPingTimeout)
	defer cancel()
	if err := pool.Client.PingWithContext(ctx); err != nil {
		return fmt.Errorf("no Docker daemon answers at %s: %w", pool.Client.Endpoint(), err)
	}
	return nil
}

// ensureImage pulls the image unless it is there. RunWithOptions would pull,
// too, but neither stop with the context nor tell anyone.
func (s *starter) ensureImage(ctx context.Context, pool *dockertest.Pool, image string) error {
	_, err := pool.Client.InspectImage(image)
	if err == nil {
		return nil
	}
	if !errors.Is(err, docker.ErrNoSuchImage) {
		return fmt.Errorf("look for image %s: %w", image, err)
	}
	s.opts.Logf("pgserver: pulling %s", image)
	ctx, cancel := context.WithTimeout(ctx, dockerPullTimeout)
	defer cancel()
	repository, tag := docker.ParseRepositoryTag(image)
	if tag == "" {
		tag = "latest"
	}
	err = pool.Client.PullImage(docker.PullImageOptions{
		Repository: repository,
		Tag:        tag,
		Context:    ctx,
	}, docker.AuthConfiguration{})
	if err != nil {
		return fmt.Errorf("image %s is not there and can't be pulled: %w", image, err)
	}
	return nil
}

// dockerHost returns where a daemon's published ports are reached, and the
// address to publish them on: this machine only, unless the daemon is another
// machine's.
func dockerHost(endpoint string) (host, bind string) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme == "unix" || u.Scheme == "npipe" {
		return "127.0.0.1", "127.0.0.1"
	}
	switch h := u.Hostname(); {
	case h == "" || h == "localhost" || strings.HasPrefix(h, "127."):
		return "127.0.0.1", "127.0.0.1"
	default:
		return h, "0.0.0.0"
	}
}

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
