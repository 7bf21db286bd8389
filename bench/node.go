package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The rivals of Node.js are scripts, with the packages that npm installs on first use into the user's cache.
//
//go:embed node/package.json node/*.mjs
var nodeFiles embed.FS

const (
	nodeLimit   = 10 * time.Second // of a drain, which goes on from there at the rate that it had
	nodeInstall = 5 * time.Minute
)

// nodeSystems returns the queues of Node.js that keep an order, with so many queues or keys, as far as they can run
// here.
func nodeSystems(ctx context.Context, b *bench, groups int) []*system {
	scripts, err := findNode(ctx)
	if err != nil {
		b.notef("without graphile-worker and pg-boss: %v", err)
		return nil
	}
	systems := []*system{scripts.system(b, "graphile-worker, named queues", "graphile.mjs", groups)}
	if err := scripts.renew(ctx); err != nil {
		b.notef("without pg-boss: %v", err)
		return systems
	}
	return append(systems, scripts.system(b, "pg-boss, key_strict_fifo", "pgboss.mjs", groups))
}

// nodeScripts are the scripts in a folder of their own, and the program that runs them.
type nodeScripts struct{ dir, node, npm string }

// findNode puts the scripts into the cache, and has npm install what they need unless it is there.
func findNode(ctx context.Context) (n *nodeScripts, err error) {
	n = new(nodeScripts)
	if n.node, err = exec.LookPath("node"); err != nil {
		return nil, err
	}
	if n.npm, err = exec.LookPath("npm"); err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	wanted, err := nodeFiles.ReadFile("node/package.json")
	if err != nil {
		return nil, err
	}
	hash := fnv.New64a()
	_, _ = hash.Write(wanted)
	n.dir = filepath.Join(cache, "pgfifo-bench", fmt.Sprintf("node-%x", hash.Sum64()))
	if err := n.write(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(n.dir, "node_modules", "graphile-worker")); err == nil {
		return n, nil
	}
	return n, n.install(ctx)
}

func (n *nodeScripts) write() error {
	files, err := fs.Sub(nodeFiles, "node")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(n.dir, name), text, 0o644)
	})
}

func (n *nodeScripts) install(ctx context.Context, packages ...string) error {
	ctx, cancel := context.WithTimeout(ctx, nodeInstall)
	defer cancel()
	args := append([]string{"install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"}, packages...)
	cmd := exec.CommandContext(ctx, n.npm, args...)
	cmd.Dir = n.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install: %w: %.300s", err, out)
	}
	return nil
}

// renew sees to it that the program is new enough for pg-boss, 22.12. npm has the program too.
func (n *nodeScripts) renew(ctx context.Context) error {
	if n.isNew(ctx) {
		return nil
	}
	own := &nodeScripts{dir: n.dir, npm: n.npm, node: filepath.Join(n.dir, "node_modules", ".bin", "node")}
	if !own.isNew(ctx) {
		if err := own.install(ctx, "node@22"); err != nil {
			return err
		}
		if !own.isNew(ctx) {
			return errors.New("it needs Node.js 22.12")
		}
	}
	n.node = own.node
	return nil
}

func (n *nodeScripts) isNew(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, n.node, "--version").Output()
	if err != nil {
		return false
	}
	var major, minor int
	_, err = fmt.Sscanf(string(out), "v%d.%d", &major, &minor)
	return err == nil && (major > 22 || major == 22 && minor >= 12)
}

// A nodeDrain is what a script prints.
type nodeDrain struct {
	Count     int     `json:"count"`
	Seconds   float64 `json:"seconds"`  // from the start of the first job to that of the last
	Disorder  int     `json:"disorder"` // jobs that started after a later one of their key
	Deadlocks int     `json:"deadlocks"`
}

func (n *nodeScripts) system(b *bench, name, script string, groups int) *system {
	params := map[string]any{"groups": groups, "at_most": nodeLimit.String()}
	return &system{name: name, params: params, work: func(ctx context.Context, jobs int) (time.Duration, error) {
		d, err := n.drain(ctx, b.database, script, jobs, groups)
		if err != nil {
			return 0, err
		}
		if d.Count < 2 || d.Seconds <= 0 {
			return 0, fmt.Errorf("%d jobs in %v", d.Count, nodeLimit)
		}
		if d.Disorder > 0 || d.Deadlocks > 0 {
			b.notef("%s: %d of %d jobs started after a later one of their group; %d deadlocks", name, d.Disorder,
				d.Count, d.Deadlocks)
		}
		return time.Duration(d.Seconds * float64(jobs) / float64(d.Count) * float64(time.Second)), nil
	}}
}

func (n *nodeScripts) drain(
	ctx context.Context, db *database, script string, jobs, groups int,
) (d nodeDrain, err error) {
	seconds := strconv.FormatFloat(nodeLimit.Seconds(), 'f', -1, 64)
	cmd := exec.CommandContext(ctx, n.node, script, strconv.Itoa(jobs), strconv.Itoa(groups), seconds)
	cmd.Dir = n.dir
	if cmd.Env, err = clientEnv(db.url); err != nil {
		return d, err
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return d, fmt.Errorf("%s: %w: %.300s", script, err, errs.String())
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return d, fmt.Errorf("%s: %w in %.300s", script, err, out)
	}
	return d, nil
}
