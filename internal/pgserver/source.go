package pgserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// The names of the sources, as in PGFIFO_POSTGRES and Server.Source.
const (
	sourceURL      = "url"
	sourceDocker   = "docker"
	sourceLocal    = "local"
	sourceEmbedded = "embedded"
)

// source is one way to get a server. The server that start returns needs URL
// and stop only.
type source struct {
	name  string
	start func(context.Context) (*Server, error)
}

// starter is one call of Start, with its surroundings in fields, so that tests
// can have their own side by side.
type starter struct {
	opts        Options
	getenv      func(string) string
	binDirs     []string // patterns of folders to look for server binaries in
	embeddedURL string   // where the embedded source downloads from, past its cache; "" is its default
}

func newStarter(opts *Options, getenv func(string) string) *starter {
	s := &starter{getenv: getenv, binDirs: knownBinDirs}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Logf == nil {
		s.opts.Logf = func(string, ...any) {}
	}
	return s
}

// sources returns what to try, in order: one when it is forced, or when
// DATABASE_URL leaves no choice.
func (s *starter) sources() ([]source, error) {
	all := []source{
		{sourceURL, s.startURL},
		{sourceDocker, s.startDocker},
		{sourceLocal, s.startLocal},
		{sourceEmbedded, s.startEmbedded},
	}
	forced := s.getenv(EnvSource)
	if forced == "" {
		if s.getenv(EnvURL) != "" {
			return all[:1], nil
		}
		return all, nil
	}
	i := slices.IndexFunc(all, func(src source) bool { return src.name == forced })
	if i < 0 {
		names := make([]string, len(all))
		for j, src := range all {
			names[j] = src.name
		}
		return nil, fmt.Errorf("pgserver: %s=%q is not one of %s",
			EnvSource, forced, strings.Join(names, ", "))
	}
	return all[i : i+1], nil
}

func (s *starter) start(ctx context.Context) (*Server, error) {
	sources, err := s.sources()
	if err != nil {
		return nil, err
	}
	failed := &StartError{}
	for _, src := range sources {
		srv, err := s.startFrom(ctx, src)
		if err == nil {
			s.opts.Logf("pgserver: PostgreSQL %s from %s", srv.Version, srv.Source)
			return srv, nil
		}
		s.opts.Logf("pgserver: no server from %s: %v", src.name, err)
		failed.Attempts = append(failed.Attempts, Attempt{Source: src.name, Err: err})
		if ctx.Err() != nil {
			break // the caller has given up: no further source is to be blamed
		}
	}
	return nil, failed
}

// startFrom starts a server from one source and fills in what they all share.
func (s *starter) startFrom(ctx context.Context, src source) (*Server, error) {
	srv, err := src.start(ctx)
	if err != nil {
		return nil, err
	}
	srv.Source = src.name
	if srv.Version, err = show(ctx, srv.URL, "server_version"); err != nil {
		_ = srv.Close() // the first error tells more
		return nil, err
	}
	return srv, nil
}
