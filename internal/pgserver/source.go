package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// advice is what to do about a source that failed.
var advice = map[string]string{
	sourceURL:    "set " + EnvURL + " to a running server's URL",
	sourceDocker: "start Docker and pull " + DefaultImage + " (or set " + EnvImage + ")",
	sourceLocal: "install PostgreSQL's server (Debian: `apt-get update && apt-get install -y postgresql`); " +
		"one that is there already is found if its folder of binaries is in PATH",
	sourceEmbedded: "have access to the internet",
}

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
	var failed []error
	for _, src := range sources {
		srv, err := s.startFrom(ctx, src)
		if err == nil {
			s.opts.Logf("pgserver: PostgreSQL %s from %s", srv.Version, srv.Source)
			return srv, nil
		}
		s.opts.Logf("pgserver: no server from %s: %v", src.name, err)
		failed = append(failed, fmt.Errorf("%s: %w\n    to get it: %s", src.name, err, advice[src.name]))
		if ctx.Err() != nil {
			break // the caller has given up: no further source is to be blamed
		}
	}
	return nil, fmt.Errorf("pgserver: no PostgreSQL server\n%w", errors.Join(failed...))
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

// startURL takes the server that DATABASE_URL names. It starts nothing and
// Close stops nothing.
func (s *starter) startURL(ctx context.Context) (*Server, error) {
	url := s.getenv(EnvURL)
	if url == "" {
		return nil, errors.New(EnvURL + " is not set")
	}
	if _, err := show(ctx, url, "server_version"); err != nil {
		return nil, fmt.Errorf("%s is set, but its server can't be used: %w", EnvURL, err)
	}
	if s.opts.Durable || len(s.opts.Settings) > 0 {
		s.opts.Logf("pgserver: the server of %s keeps its own settings", EnvURL)
	}
	return &Server{URL: url}, nil
}

// settings returns the settings of a server that this package starts, without
// where it listens: the defaults, overridden by the caller's.
func (o *Options) settings() map[string]string {
	durability := "off"
	if o.Durable {
		durability = "on"
	}
	set := map[string]string{
		"fsync":              durability,
		"synchronous_commit": durability,
		"full_page_writes":   durability,
		"max_connections":    "300",
		// All that is logged goes to stderr, which is kept for error texts.
		"logging_collector": "off",
		"log_destination":   "stderr",
	}
	maps.Copy(set, o.Settings)
	return set
}

// args returns settings as the server's command line: -c name=value, sorted so
// that a command is the same at each start.
func args(set map[string]string) []string {
	list := make([]string, 0, 2*len(set))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, "-c", name+"="+set[name])
	}
	return list
}
