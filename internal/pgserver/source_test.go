package pgserver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// helpless returns a starter for which no source works.
func helpless(opts *Options, vars map[string]string) *starter {
	all := map[string]string{"PATH": "", "DOCKER_HOST": "tcp://" + nobody}
	for name, value := range vars {
		all[name] = value
	}
	s := newStarter(opts, environment(all))
	s.binDirs = nil
	s.embeddedURL = "http://" + nobody
	return s
}

// requireTried asserts which sources an error tells of.
func requireTried(t *testing.T, err error, sources ...string) {
	t.Helper()
	var tried []string
	for line := range strings.Lines(err.Error()) {
		if name, _, ok := strings.Cut(line, ": "); ok && advice[name] != "" {
			tried = append(tried, name)
			require.ErrorContains(t, err, advice[name])
		}
	}
	require.Equal(t, sources, tried)
}

func TestAllSourcesFail(t *testing.T) {
	t.Parallel()
	var told int
	_, err := helpless(&Options{Logf: func(string, ...any) { told++ }}, nil).start(t.Context())
	requireTried(t, err, sourceURL, sourceDocker, sourceLocal, sourceEmbedded)
	require.ErrorContains(t, err, "DATABASE_URL is not set")
	require.ErrorContains(t, err, "no Docker daemon answers at tcp://"+nobody)
	require.ErrorContains(t, err, "initdb and postgres are neither in PATH")
	require.Equal(t, 4, told)
	t.Log(err)
}

func TestURLIsNeverPassedOver(t *testing.T) {
	t.Parallel()
	s := newStarter(nil, environment(map[string]string{
		EnvURL: "postgres://someone:secret@" + nobody + "/postgres?sslmode=disable",
	}))
	_, err := s.start(t.Context())
	requireTried(t, err, sourceURL)
	require.ErrorContains(t, err, "DATABASE_URL is set")
	require.NotContains(t, err.Error(), "secret")
}

func TestURLIsUsedAndLeftRunning(t *testing.T) {
	t.Parallel()
	local := startLocal(t, nil)
	srv, err := newStarter(nil, environment(map[string]string{EnvURL: local.URL})).start(t.Context())
	require.NoError(t, err)
	require.Equal(t, sourceURL, srv.Source)
	require.Equal(t, local.URL, srv.URL)
	require.Equal(t, local.Version, srv.Version)
	require.NoError(t, srv.Close())
	require.Equal(t, local.Version, setting(t, local.URL, "server_version"))
}

func TestForcedSource(t *testing.T) {
	t.Parallel()
	for _, name := range []string{sourceURL, sourceDocker, sourceLocal, sourceEmbedded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := helpless(nil, map[string]string{EnvSource: name}).start(t.Context())
			requireTried(t, err, name)
		})
	}
	t.Run("wins over DATABASE_URL", func(t *testing.T) {
		t.Parallel()
		_, err := helpless(nil, map[string]string{
			EnvSource: sourceLocal, EnvURL: "postgres://" + nobody,
		}).start(t.Context())
		requireTried(t, err, sourceLocal)
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		_, err := helpless(nil, map[string]string{EnvSource: "dokcer"}).start(t.Context())
		require.EqualError(t, err, `pgserver: PGFIFO_POSTGRES="dokcer" is not one of url, docker, local, embedded`)
	})
}

func TestCancelledStartBlamesNoFurtherSource(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newStarter(nil, environment(map[string]string{EnvURL: "postgres://" + nobody})).start(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = helpless(nil, nil).start(ctx)
	requireTried(t, err, sourceURL)
}

func TestDockerHost(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string][2]string{
		"unix:///var/run/docker.sock":    {"127.0.0.1", "127.0.0.1"},
		"npipe:////./pipe/docker_engine": {"127.0.0.1", "127.0.0.1"},
		"tcp://localhost:2375":           {"127.0.0.1", "127.0.0.1"},
		"tcp://docker:2375":              {"docker", "0.0.0.0"},
	} {
		host, bind := dockerHost(endpoint)
		require.Equal(t, want, [2]string{host, bind}, endpoint)
	}
}

// program makes the folder dir with executable files of these names.
func programs(t *testing.T, dir string, names ...string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+exeSuffix()), nil, 0o700))
	}
}

func TestFindBinaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"9.6", "15", "17"} {
		programs(t, filepath.Join(dir, version, "bin"), "initdb", "postgres")
	}
	programs(t, filepath.Join(dir, "18", "bin"), "postgres") // not both
	inPath := filepath.Join(dir, "path")
	s := newStarter(nil, environment(map[string]string{"PATH": inPath}))
	s.binDirs = []string{filepath.Join(dir, "*", "bin")}

	found, err := s.findBinaries(t.Context())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "17", "bin"), found, "the newest by number")

	programs(t, inPath, "initdb", "postgres")
	found, err = s.findBinaries(t.Context())
	require.NoError(t, err)
	require.Equal(t, inPath, found, "PATH comes first")
}
