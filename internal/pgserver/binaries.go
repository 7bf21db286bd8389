package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// knownBinDirs are patterns of the folders that packages of PostgreSQL install
// their server into without adding them to PATH.
var knownBinDirs = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // PostgreSQL's own for Red Hat's
	"/usr/libexec/postgresql*",           // Alpine
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple's processors
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel's
	"/usr/local/pgsql/bin",               // built from source
	`C:\Program Files\PostgreSQL\*\bin`,  // the Windows installer
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// Binaries returns the folder of the PostgreSQL server that is installed here,
// with all its programs: PATH may have links to some.
func Binaries(ctx context.Context) (string, error) {
	return newStarter(nil, os.Getenv).binaries(ctx)
}

// binaries is findBinaries without links.
func (s *starter) binaries(ctx context.Context) (string, error) {
	dir, err := s.findBinaries(ctx)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"+exeSuffix()))
	return filepath.Dir(path), err
}

// findBinaries returns the folder that has initdb and postgres side by side:
// one of PATH, then the one that pg_config tells, then the newest of the
// folders known.
func (s *starter) findBinaries(ctx context.Context) (string, error) {
	path := filepath.SplitList(s.getenv("PATH"))
	for _, dir := range path {
		if hasBinaries(dir) {
			return dir, nil
		}
	}
	for _, dir := range path {
		if dir, err := pgConfigBinDir(ctx, dir); err == nil && hasBinaries(dir) {
			return dir, nil
		}
	}
	var found []string
	for _, pattern := range s.binDirs {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("pattern %s: %w", pattern, err)
		}
		found = append(found, slices.DeleteFunc(dirs, func(dir string) bool { return !hasBinaries(dir) })...)
	}
	if len(found) == 0 {
		return "", errors.New("initdb and postgres are neither in PATH, nor where pg_config says, nor in " +
			strings.Join(s.binDirs, ", "))
	}
	return slices.MaxFunc(found, func(a, b string) int { return majorVersion(a) - majorVersion(b) }), nil
}

// pgConfigBinDir asks the pg_config in dir, if there is one, where the
// server's binaries would be. Debian's answers even where only the client's
// library is installed.
func pgConfigBinDir(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "pg_config"+exeSuffix())
	if !isProgram(program) {
		return "", os.ErrNotExist
	}
	out, err := exec.CommandContext(ctx, program, "--bindir").Output()
	return strings.TrimSpace(string(out)), err
}

var number = regexp.MustCompile(`[0-9]+`)

// majorVersion returns the version in the path of a folder of binaries: its
// last number, or 0.
func majorVersion(dir string) int {
	all := number.FindAllString(dir, -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(all[len(all)-1])
	if err != nil {
		return 0 // too long a number to be a version
	}
	return n
}

func hasBinaries(dir string) bool {
	// An empty or relative entry of PATH is the current folder: not a place
	// to run programs from.
	return filepath.IsAbs(dir) &&
		isProgram(filepath.Join(dir, "initdb"+exeSuffix())) &&
		isProgram(filepath.Join(dir, "postgres"+exeSuffix()))
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	return runtime.GOOS == "windows" || info.Mode().Perm()&0o111 != 0
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
