package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/pgfifo/pgfifo/internal/daemon"
)

// templates are the data of clusters before their first start, by the folder of the binaries that made them. A process
// that starts several clusters copies the data: initdb takes half a second of a processor.
var templates = struct {
	sync.Mutex
	of map[string]*template
}{of: make(map[string]*template)}

// A template goes with the last cluster of its binaries.
type template struct {
	bin      string
	clusters int
	home     *daemon.Daemon // from whose data nobody starts a server; nil: they are not made yet
}

// Data gives a daemon the data of a new cluster of PostgreSQL, whose binaries are in the folder bin: in its folder
// "data". The caller calls gone when the daemon's folder has gone.
func Data(ctx context.Context, d *daemon.Daemon, bin string) (gone func() error, err error) {
	templates.Lock()
	defer templates.Unlock()
	t := templates.of[bin]
	if t == nil {
		t = &template{bin: bin}
		templates.of[bin] = t
	}
	t.clusters++
	if err := t.fill(ctx, d); err != nil {
		return nil, errors.Join(err, t.leave())
	}
	return sync.OnceValue(func() error {
		templates.Lock()
		defer templates.Unlock()
		return t.leave()
	}), nil
}

func dataOf(d *daemon.Daemon) string { return filepath.Join(d.Dir, "data") }

// fill copies the data, which it makes for the first.
func (t *template) fill(ctx context.Context, d *daemon.Daemon) error {
	if t.home == nil {
		home, err := daemon.New(filepath.Dir(d.Dir))
		if err != nil {
			return err
		}
		if err := t.initdb(ctx, home); err != nil {
			return errors.Join(fmt.Errorf("%w%s", err, endOf(home.LogFile())), home.Close())
		}
		t.home = home
	}
	return copyTo(d, dataOf(d), dataOf(t.home))
}

func (t *template) initdb(ctx context.Context, d *daemon.Daemon) error {
	return d.Execute(ctx, filepath.Join(t.bin, "initdb"+exeSuffix()), "-D", dataOf(d), "-U", superuser, "-A", "trust",
		"-E", "UTF8", "--no-sync", "--no-instructions")
}

// leave is told that the data of a cluster have gone.
func (t *template) leave() error {
	if t.clusters--; t.clusters > 0 {
		return nil
	}
	delete(templates.of, t.bin)
	if t.home == nil {
		return nil
	}
	return t.home.Close()
}

// copyTo copies a folder of a daemon's, for the daemon alone.
func copyTo(d *daemon.Daemon, to, from string) error {
	err := errors.Join(os.CopyFS(to, os.DirFS(from)), os.Chmod(to, 0o700))
	if err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, d.Own(path))
	})
}
