package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pgfifo/pgfifo/internal/daemon"
)

// cluster is a temporary PostgreSQL cluster, run by this process.
type cluster struct {
	*daemon.Daemon
	bin    string   // folder of the server's binaries
	listen []string // where it listens beside 127.0.0.1
	argv   []string // the server's arguments
	url    string
	gone   func() error // is told when its data have gone; nil: there were none
}

// startLocal makes a temporary cluster with the PostgreSQL installed here.
func (s *starter) startLocal(ctx context.Context) (*Server, error) {
	bin, err := s.binaries(ctx)
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

// DataDir returns the folder for the data of a server of one's own that may forget.
func DataDir() string { return newStarter(nil, os.Getenv).dataDir() }

// startCluster starts the server of a cluster whose binaries are there.
func (s *starter) startCluster(ctx context.Context, c *cluster) (*Server, error) {
	c.listen = s.opts.Listen
	url, err := c.start(ctx, s.opts.settings())
	if err != nil {
		err = fmt.Errorf("%w%s", err, c.logTail()) // before close removes the log
		return nil, errors.Join(err, c.close())
	}
	return &Server{URL: url, Log: c.LogFile(), stop: c.close, Halt: c.Stop, Resume: c.resume}, nil
}

// newCluster makes the cluster's folder, empty yet, in a folder that is there;
// "" is the one for temporary files.
func newCluster(parent string) (*cluster, error) {
	d, err := daemon.New(parent)
	if err != nil {
		return nil, err
	}
	c := &cluster{Daemon: d}
	d.Quit = c.quit
	return c, nil
}

// start makes the data, runs the server, and returns its URL once it answers.
func (c *cluster) start(ctx context.Context, set map[string]string) (url string, err error) {
	if c.gone, err = Data(ctx, c.Daemon, c.bin); err != nil {
		return "", err
	}
	if err := c.admit(); err != nil {
		return "", err
	}
	url, err = c.serve(ctx, set)
	if errors.Is(err, errEnded) && strings.Contains(c.logTail(), "could not bind") {
		// Someone took the port between our look and the server's. Not twice.
		url, err = c.serve(ctx, set)
	}
	return url, err
}

func (c *cluster) data() string { return dataOf(c.Daemon) }

// program returns the path of one of PostgreSQL's programs.
func (c *cluster) program(name string) string { return filepath.Join(c.bin, name+exeSuffix()) }

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
	port, err := daemon.FreePort()
	if err != nil {
		return "", err
	}
	set = maps.Clone(set)
	name := filepath.Base(c.Dir)
	maps.Copy(set, loopbackOnly(port, name))
	set["listen_addresses"] = strings.Join(append([]string{set["listen_addresses"]}, c.listen...), ",")
	c.argv = append([]string{"-D", c.data()}, args(set)...)
	c.url = serverURL(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return c.url, c.resume(ctx)
}

// resume starts the server where it was before, and waits until it answers.
func (c *cluster) resume(ctx context.Context) error {
	if err := c.Start(c.program("postgres"), c.argv...); err != nil {
		return err
	}
	return waitReady(ctx, c.url, filepath.Base(c.Dir), c.Exited)
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

// close ends the server, and removes the folder.
func (c *cluster) close() error {
	err := c.Close()
	if c.gone != nil {
		err = errors.Join(err, c.gone())
	}
	return err
}

// logTail returns the end of the cluster's log, for an error's text.
func (c *cluster) logTail() string { return endOf(c.LogFile()) }

// endOf returns the end of a log, for an error's text.
func endOf(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	var l logTail
	_, _ = l.Write(text)
	return l.tail()
}
