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
	clusters int
	home     *cluster // whose data nobody starts a server from; nil until the second cluster
}

// fill gives the cluster its data.
func (c *cluster) fill(ctx context.Context) error {
	templates.Lock()
	defer templates.Unlock()
	t := templates.of[c.bin]
	if t == nil {
		t = &template{}
		templates.of[c.bin] = t
	}
	t.clusters++
	c.filled = true
	if t.clusters == 1 { // most processes have one
		return c.initdb(ctx)
	}
	if t.home == nil {
		home, err := newCluster(filepath.Dir(c.Dir))
		if err != nil {
			return err
		}
		home.bin = c.bin
		if err := home.initdb(ctx); err != nil {
			return errors.Join(fmt.Errorf("%w%s", err, home.logTail()), home.close())
		}
		t.home = home
	}
	return copyTo(c.Daemon, c.data(), t.home.data())
}

// unfill is told that the cluster's data has gone.
func (c *cluster) unfill() error {
	if !c.filled {
		return nil
	}
	templates.Lock()
	defer templates.Unlock()
	c.filled = false
	t := templates.of[c.bin]
	if t.clusters--; t.clusters > 0 {
		return nil
	}
	delete(templates.of, c.bin)
	if t.home == nil {
		return nil
	}
	return t.home.close()
}

// copyTo copies a folder of a daemon's, for the daemon alone.
func copyTo(d *daemon.Daemon, to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err = filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, path)
		if entry.IsDir() {
			err = os.Mkdir(dest, 0o700)
		} else {
			var data []byte
			if data, err = os.ReadFile(filepath.Join(from, path)); err == nil {
				err = os.WriteFile(dest, data, 0o600)
			}
		}
		return errors.Join(err, d.Own(dest))
	})
}
