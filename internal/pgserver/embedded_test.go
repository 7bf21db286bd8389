package pgserver

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository serves an archive of binaries, whatever is asked for. Its programs
// are this machine's, by another name.
func repository(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the archive's programs are shell scripts")
	}
	real, err := Binaries(t.Context())
	if err != nil {
		require.ErrorContains(t, err, "initdb and postgres are neither in PATH")
		t.Skip(err)
	}
	if _, err := exec.LookPath("xz"); err != nil { // by which tar packs the archive
		require.ErrorIs(t, err, exec.ErrNotFound)
		t.Skip(err)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		script := "#!/bin/sh\nexec " + filepath.Join(real, name) + ` "$@"` + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
	}
	archive := filepath.Join(dir, "postgres.txz")
	out, err := exec.Command("tar", "-C", dir, "-cJf", archive, "bin").CombinedOutput()
	require.NoError(t, err, "%s", out)
	packed, err := os.ReadFile(archive)
	require.NoError(t, err)
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	f, err := z.Create("postgres.txz")
	require.NoError(t, err)
	_, err = f.Write(packed)
	require.NoError(t, errors.Join(err, z.Close()))

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r) // there are no checksums
			return
		}
		_, _ = w.Write(jar.Bytes())
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// It runs as root, too: then the server is another user's.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	s := newStarter(nil, environment(map[string]string{EnvSource: sourceEmbedded}))
	s.embeddedURL = repository(t)
	srv, err := s.start(t.Context())
	require.NoError(t, err)
	require.Equal(t, sourceEmbedded, srv.Source)
	require.Equal(t, "UTF8", setting(t, srv.URL, "server_encoding"))
	require.Equal(t, "127.0.0.1", setting(t, srv.URL, "listen_addresses"))
	data := setting(t, srv.URL, "data_directory")
	require.NoError(t, srv.Close())
	requireGone(t, srv.URL)
	require.NoDirExists(t, filepath.Dir(data), "nor is a folder left")
}

func TestEmbeddedIsGivenUp(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-answer
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(answer) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	s := newStarter(nil, environment(map[string]string{EnvSource: sourceEmbedded}))
	s.embeddedURL = srv.URL
	_, err := s.start(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
