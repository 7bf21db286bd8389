//go:build unix

package pgfifo_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A bouncer is a pgbouncer in front of the test server.
type bouncer struct {
	*program
	path    string
	console string // the URL of its own database
}

// bouncerProgram returns the path of pgbouncer, or skips the test.
func bouncerProgram(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // Debian's, which is not in everybody's PATH
	}
	if !isFile(program) {
		t.Skip("skipped: no pgbouncer is installed here")
	}
	return program
}

// bouncerVersion returns the x of version 1.x, or skips the test.
func bouncerVersion(t *testing.T) int {
	t.Helper()
	version, err := exec.Command(bouncerProgram(t), "--version").Output()
	require.NoError(t, err)
	return firstNumber(t, `PgBouncer 1\.(\d+)`, version)
}

// newBouncer starts a pgbouncer in front of the server of that URL, or skips the test.
func newBouncer(t *testing.T, direct, mode string, set map[string]string) *bouncer {
	t.Helper()
	path := bouncerProgram(t)
	target, err := url.Parse(direct)
	require.NoError(t, err)
	password, _ := target.User.Password()
	b := &bouncer{program: newProgram(t, "", syscall.SIGTERM), path: path}
	console := *target
	console.Path = "/pgbouncer"
	b.console = b.through(console.String())
	all := map[string]string{
		"listen_addr": "127.0.0.1", "listen_port": strconv.Itoa(b.port), "unix_socket_dir": "",
		"auth_type": "trust", "auth_file": b.file("users"), "admin_users": target.User.Username(),
		"pool_mode":         mode,
		"default_pool_size": "50", "max_client_conn": "200",
	}
	maps.Copy(all, set)
	host, port := target.Hostname(), target.Port()
	if port == "" {
		port = "5432"
	}
	var ini strings.Builder
	fmt.Fprintf(&ini, "[databases]\n* = host=%s port=%s\n[pgbouncer]\n", host, port)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&ini, "%s = %s\n", name, all[name])
	}
	b.write("ini", ini.String())
	b.write("users", fmt.Sprintf("%q %q\n", target.User.Username(), password))
	b.serve()
	return b
}

func (b *bouncer) file(name string) string { return filepath.Join(b.Dir, name) }

func (b *bouncer) write(name, text string) {
	b.Helper()
	require.NoError(b, os.WriteFile(b.file(name), []byte(text), 0o600))
	require.NoError(b, b.Own(b.file(name)))
}

func (b *bouncer) serve() {
	b.Helper()
	require.NoError(b, b.Start(b.path, b.file("ini")))
	b.await("pgbouncer's answer", func() bool {
		conn, err := pgx.Connect(b.Context(), b.console)
		if err != nil {
			return false
		}
		return conn.Close(b.Context()) == nil
	})
}

func (b *bouncer) kill() {
	b.Helper()
	require.NoError(b, b.Kill())
}

// endedItself tells whether this pgbouncer, which refuses connections, has died of a cancel request, as 1.18.0 and
// 1.19.0 do at times (its issue #801). A worker that is stopped sends them.
func (b *bouncer) endedItself() bool {
	b.Helper()
	if bouncerVersion(b.T) >= 20 {
		return false
	}
	b.await("the end of pgbouncer", b.Ended)
	return strings.Contains(b.said(), "bad client state")
}

// through returns the URL of the same database behind the bouncer.
func (b *bouncer) through(direct string) string {
	b.Helper()
	u, err := url.Parse(direct)
	require.NoError(b, err)
	u.Host = fmt.Sprint("127.0.0.1:", b.port)
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return u.String()
}

// In session mode, worker processes keep their promises: order, exclusion, effects once, deaths counted.
func TestWorkersBehindPoolerInSessionMode(t *testing.T) {
	s := newSite(t)
	b := newBouncer(t, s.URL, "session", nil)
	through := b.through(s.URL)
	open := s.gate()
	want := s.fill(20, 10)
	gated := s.enqueue(message("gate", task{Do: "gate"}), message("gate", task{}))
	want["gate"] = gated
	procs := map[string]*process{}
	for range 3 {
		p := s.launch(assignment{URL: through, Lanes: 4}, (*exec.Cmd).Start)
		procs[p.name] = p
	}
	worker := s.waiting(gated[0], 1)
	s.kill(procs[worker])
	delete(procs, worker)
	second := s.waiting(gated[0], 2)
	require.NotEqual(t, worker, second)
	require.Equal(t, 1, s.number("SELECT attempts FROM pgfifo.jobs WHERE id = $1", gated[0]))
	open()
	s.drained()
	s.stop(slices.Collect(maps.Values(procs))...)
	require.Equal(t, want, s.effects())
	require.Greater(t, s.replay(), 1, "groups run in parallel")
	requireCleanSessions(s, b)
}

// requireCleanSessions checks that nothing of a worker's is left in sessions that others are given.
func requireCleanSessions(s *site, b *bouncer) {
	s.Helper()
	through := b.through(s.URL)
	const settings = `SELECT string_agg(concat(name, '=', setting, ' by ', source), ' ' ORDER BY name)
		FROM pg_settings WHERE name IN
		('synchronous_commit', 'enable_seqscan', 'plan_cache_mode', 'jit', 'idle_in_transaction_session_timeout')`
	want := pgtest.One[string](s.DB, settings)
	for range 8 { // all open at once
		var got string
		conn, err := pgx.Connect(s.Context(), through)
		if err != nil && b.endedItself() { // and took the sessions with it
			return
		}
		require.NoError(s, err)
		s.Cleanup(func() { _ = conn.Close(context.Background()) })
		require.NoError(s, conn.QueryRow(s.Context(), settings, pgx.QueryExecModeExec).Scan(&got))
		require.Equal(s, want, got)
	}
}

// A pgbouncer that is killed takes all its sessions with it: their jobs are lost attempts, as if the workers had died,
// and run again when it is back. So it is when the server ends its sessions.
func TestPoolerDies(t *testing.T) {
	s := newSite(t)
	b := newBouncer(t, s.URL, "session", nil)
	open := s.gate()
	want := s.fill(10, 20)
	var gated []int64
	for i := range 5 { // more than a process has lanes, so that both are at work
		group := fmt.Sprint("gate", i)
		want[group] = s.enqueue(message(group, task{Do: "gate"}))
		gated = append(gated, want[group]...)
	}
	waiting := func(attempt int) {
		for _, id := range gated {
			s.waiting(id, attempt)
		}
	}
	a := assignment{URL: b.through(s.URL), Lanes: 4}
	procs := []*process{s.launch(a, (*exec.Cmd).Start), s.launch(a, (*exec.Cmd).Start)}
	const lanes = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'worker-%'"
	waiting(1)
	b.kill()
	s.until("the server to free what the pooler held", func() bool { return s.number("SELECT count(*) "+lanes) == 0 })
	b.serve()
	waiting(2)
	s.number("SELECT count(pg_terminate_backend(pid)) " + lanes)
	waiting(3)
	open()
	s.drained()
	s.stop(procs...)
	require.Equal(t, want, s.effects())
	for _, id := range gated {
		for i, e := range s.find("start", id) {
			require.Equal(t, i+1, e.attempt, "every loss is counted once")
		}
	}
}

// A worker refuses sessions that are not its own, also beside other clients of the pooler, and leaves nothing in them.
func TestWorkerRefusesSharedSessions(t *testing.T) {
	pgtest.OverEach(t, []string{"transaction", "statement"}, func(t *testing.T, mode string) {
		s := newSite(t)
		b := newBouncer(t, s.URL, mode, map[string]string{"default_pool_size": "8"})
		through := b.through(s.URL)
		for range 6 { // others, at work
			conn := connectIn(t, through, pgx.QueryExecModeSimpleProtocol)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					_, _ = conn.Exec(ctx, "SELECT 1")
				}
			}()
			t.Cleanup(func() {
				stop()
				<-ended
			})
		}
		client := clientIn(t, through, pgx.QueryExecModeSimpleProtocol)
		s.enqueue(message("g", task{}))
		for range 20 {
			w := &fifo.Worker{Client: client, Concurrency: 2}
			w.Handle(queue, func(context.Context, *fifo.Job) error { return nil })
			ctx, stop := context.WithTimeout(t.Context(), patience) // one that works would not end
			err := w.Run(ctx)
			stop()
			require.ErrorIs(t, err, fifo.ErrPooled)
			_, err = w.RunOne(t.Context())
			require.ErrorIs(t, err, fifo.ErrPooled)
		}
		require.Equal(t, 1, s.jobs())
		if mode == "transaction" {
			requireCleanSessions(s, b)
		}
	})
}
