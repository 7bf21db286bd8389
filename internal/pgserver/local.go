package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// stopTimeout bounds how long a server may take to end when told to.
const stopTimeout = 10 * time.Second

// cluster is a temporary PostgreSQL cluster, run by this process.
type cluster struct {
	bin    string    // folder of the server's binaries
	dir    string    // all that the cluster writes: its data and its log
	listen []string  // where it listens beside 127.0.0.1
	owner  *owner    // whom its programs run as
	guard  *guard    // cleans up if this process is killed
	cmd    *exec.Cmd // the server, once it was started
	argv   []string  // its arguments
	url    string
	exited chan struct{}
	filled bool // its data counts for the template's end
}

// startLocal makes a temporary cluster with the PostgreSQL installed here.
func (s *starter) startLocal(ctx context.Context) (*Server, error) {
	bin, err := s.findBinaries(ctx)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(s.dataDir())
	if err != nil {
		return nil, err
	}
	c.bin = bin
	return s.startCluster(ctx, c)
}

// dataDir returns the folder that a cluster's is made in; "" is the one for
// temporary files. It is in memory if a server may forget, and nobody says where
// temporary files are: tests that make a database each create and delete files
// by the hundred thousand.
func (s *starter) dataDir() string {
	if s.opts.Durable || s.getenv("TMPDIR") != "" {
		return ""
	}
	return memoryDir()
}

// startCluster starts the server of a cluster whose binaries are there.
func (s *starter) startCluster(ctx context.Context, c *cluster) (*Server, error) {
	c.listen = s.opts.Listen
	url, err := c.start(ctx, s.opts.settings())
	if err != nil {
		err = fmt.Errorf("%w%s", err, c.logTail()) // before close removes the log
		return nil, errors.Join(err, c.close())
	}
	return &Server{URL: url, Log: c.log(), stop: c.close, halt: c.stop, resume: c.resume}, nil
}

// newCluster makes the cluster's folder, empty yet, in a folder that is there;
// "" is the one for temporary files.
func newCluster(parent string) (*cluster, error) {
	owner, err := clusterOwner()
	if err != nil {
		return nil, err
	}
	// Not testing's TempDir, even in a test: its parent is closed to others.
	dir, err := os.MkdirTemp(parent, "pgfifo-")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, owner: owner}
	if c.guard, err = newGuard(dir); err == nil {
		err = owner.own(dir)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// start makes the data, runs the server, and returns its URL once it answers.
func (c *cluster) start(ctx context.Context, set map[string]string) (string, error) {
	if err := c.fill(ctx); err != nil {
		return "", err
	}
	if err := c.admit(); err != nil {
		return "", err
	}
	url, err := c.serve(ctx, set)
	if errors.Is(err, errEnded) && strings.Contains(c.logTail(), "could not bind") {
		// Someone took the port between our look and the server's. Not twice.
		url, err = c.serve(ctx, set)
	}
	return url, err
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }
func (c *cluster) log() string  { return filepath.Join(c.dir, "log") }

func (c *cluster) initdb(ctx context.Context) error {
	cmd, err := c.command("initdb", "-D", c.data(), "-U", superuser, "-A", "trust",
		"-E", "UTF8", "--no-sync", "--no-instructions")
	if err != nil {
		return err
	}
	exited, err := c.run(cmd)
	if err != nil {
		return err
	}
	select {
	case <-exited:
	case <-ctx.Done():
		_ = cmd.Process.Kill() // it may have ended just now
		<-exited
		return fmt.Errorf("initdb: %w", ctx.Err())
	}
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("initdb: %s", cmd.ProcessState)
	}
	return nil
}

// admit lets in who comes from the networks where the cluster listens beside
// 127.0.0.1, which initdb has let in.
func (c *cluster) admit() error {
	if len(c.listen) == 0 {
		return nil
	}
	hba, err := os.OpenFile(filepath.Join(c.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = hba.WriteString("host all all samenet trust\n")
	return errors.Join(err, hba.Close())
}

// serve starts the server on a free port and waits until it answers.
func (c *cluster) serve(ctx context.Context, set map[string]string) (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	set = maps.Clone(set)
	name := filepath.Base(c.dir)
	maps.Copy(set, loopbackOnly(port, name))
	set["listen_addresses"] = strings.Join(append([]string{set["listen_addresses"]}, c.listen...), ",")
	c.argv = append([]string{"-D", c.data()}, args(set)...)
	c.url = serverURL(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return c.url, c.resume(ctx)
}

// resume starts the server where it was before, and waits until it answers.
func (c *cluster) resume(ctx context.Context) error {
	cmd, err := c.command("postgres", c.argv...)
	if err != nil {
		return err
	}
	if c.exited, err = c.run(cmd); err != nil {
		return err
	}
	c.cmd = cmd
	return waitReady(ctx, c.url, filepath.Base(c.dir), c.exited)
}

// loopbackOnly returns the settings of a server that listens on a port of
// 127.0.0.1, and on no socket file: a socket's path may be 107 bytes at most,
// which a long folder for temporary files would break.
func loopbackOnly(port int, clusterName string) map[string]string {
	return map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": "",
		"cluster_name":            clusterName,
	}
}

// command returns one of the server's programs, to be run by the cluster's
// owner in the cluster's folder and log: the caller's folder may be closed to
// the owner, and the caller's output must not be held open by a server that
// outlives it.
func (c *cluster) command(program string, arg ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(c.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(c.bin, program+exeSuffix()), arg...)
	cmd.Dir = c.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	c.owner.apply(cmd)
	return cmd, nil
}

// run starts a command of the cluster's and tells the guard of it. The channel
// is closed when the command has ended.
func (c *cluster) run(cmd *exec.Cmd) (chan struct{}, error) {
	err := cmd.Start()
	_ = cmd.Stdout.(*os.File).Close() // the command has its own copy
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, c.owner.hint())
	}
	c.guard.watch(cmd.Process.Pid)
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its result is in cmd.ProcessState
		c.guard.watch(0)
		close(exited)
	}()
	return exited, nil
}

// close ends the server, removes the folder, then lets the guard go.
func (c *cluster) close() error {
	var errs []error
	if c.cmd != nil {
		errs = append(errs, c.stop())
	}
	errs = append(errs, os.RemoveAll(c.dir), c.unfill())
	if c.guard != nil {
		errs = append(errs, c.guard.release())
	}
	return errors.Join(errs...)
}

// stop ends the server without the niceties of a shutdown: its data goes, too.
func (c *cluster) stop() error {
	select {
	case <-c.exited:
		return nil
	default:
	}
	c.quit()
	select {
	case <-c.exited:
		return nil
	case <-time.After(stopTimeout):
	}
	err := c.cmd.Process.Kill()
	<-c.exited
	return errors.Join(fmt.Errorf("pgserver: postgres did not stop within %s and was killed", stopTimeout), err)
}

// logTail returns the end of the cluster's log, for an error's text.
func (c *cluster) logTail() string {
	text, err := os.ReadFile(c.log())
	if err != nil {
		return ""
	}
	var l logTail
	_, _ = l.Write(text)
	return l.tail()
}
