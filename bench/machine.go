package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
)

// A fact is something that figures depend on.
type fact struct {
	Name  string `db:"name"`
	Value string `db:"value"`
}

// machineFacts tells of the machine that this program runs on. What the system does not tell is left out.
func machineFacts(ctx context.Context) []fact {
	var list []fact
	if c, err := cpu.InfoWithContext(ctx); err == nil && len(c) > 0 && c[0].ModelName != "" {
		list = append(list, fact{"processor", c[0].ModelName})
	}
	list = append(list, fact{
		"cores", fmt.Sprintf("%d, of which the program uses %d", runtime.NumCPU(), runtime.GOMAXPROCS(0)),
	})
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		list = append(list, fact{"memory", fmt.Sprintf("%.1f GiB", float64(m.Total)/(1<<30))})
	}
	if h, err := host.InfoWithContext(ctx); err == nil {
		system := strings.TrimSpace(h.Platform + " " + h.PlatformVersion)
		list = append(list, fact{"system", fmt.Sprintf("%s, kernel %s, %s", system, h.KernelVersion, h.KernelArch)})
		if h.VirtualizationRole == "guest" && h.VirtualizationSystem != "" {
			list = append(list, fact{"virtualized by", h.VirtualizationSystem})
		}
	}
	return append(list, fact{"Go", runtime.Version()})
}

// telling are the settings that decide what a commit costs, and what stays in memory.
var telling = []string{
	"fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size",
	"checkpoint_timeout", "autovacuum", "max_connections", "jit",
}

// facts tells of the server.
func (d *database) facts(ctx context.Context) ([]fact, error) {
	list := []fact{{"PostgreSQL", fmt.Sprintf("%s (%s)", d.version, d.source)}}
	rows, _ := d.pool.Query(ctx, `SELECT name, current_setting(name) AS value
		FROM unnest($1::text[]) WITH ORDINALITY AS t (name, place) ORDER BY place`, telling)
	settings, err := pgx.CollectRows(rows, pgx.RowToStructByName[fact])
	return append(list, settings...), err
}

// compared are the modules whose version a comparison is to name: the driver that is below all, and what stands beside
// pgfifo.
var compared = []string{
	"github.com/jackc/pgx/v5", "github.com/riverqueue/river", "github.com/ThreeDotsLabs/watermill-sql/v3",
}

// moduleFacts tells the commit that was measured, where git knows it, and the versions of what was compiled in.
func moduleFacts(ctx context.Context) []fact {
	var list []fact
	if commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty",
		"--abbrev=12").Output(); err == nil {
		list = append(list, fact{"pgfifo", strings.TrimSpace(string(commit))})
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return list
	}
	for _, path := range compared {
		for _, m := range info.Deps {
			if m.Path == path {
				list = append(list, fact{path, m.Version})
			}
		}
	}
	return list
}
