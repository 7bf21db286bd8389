package pgfifo_test

import (
	"context"
	"net"
	"net/url"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// via returns a URL with another host and port in it; the port may be left out.
func via(t *testing.T, from, host string) string {
	t.Helper()
	u, err := url.Parse(from)
	require.NoError(t, err)
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(host, u.Port())
	}
	u.Host = host
	return u.String()
}

// proxy returns a proxy before the site's server, and the URL that leads through it.
func (s *site) proxy() (*netfault.Proxy, string) {
	s.Helper()
	u, err := url.Parse(s.URL)
	require.NoError(s, err)
	p, err := netfault.NewProxy(u.Host)
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, p.Close()) })
	return p, via(s.T, s.URL, p.Addr())
}

// requireStarts checks the order of what was begun, where handlers may overlap: with a lost connection, for as long as
// it takes them to learn of it. One lost attempt may not be counted: see "How a crash is counted" in internal/lease.
func (s *site) requireStarts() {
	s.Helper()
	last, uncounted := make(map[string]event), 0
	for _, e := range s.events() {
		if e.kind != "start" {
			continue
		}
		before := last[e.group]
		require.GreaterOrEqual(s, e.job, before.job, "%+v after %+v", e, before)
		if e.job == before.job {
			require.GreaterOrEqual(s, e.attempt, before.attempt, "%+v after %+v", e, before)
			if e.attempt == before.attempt {
				uncounted++
			}
		}
		last[e.group] = e
	}
	require.LessOrEqual(s, uncounted, 1)
}

// A tenth of a second each way changes nothing but the time it takes.
func TestLatency(t *testing.T) {
	s := newSite(t)
	proxy, url := s.proxy()
	proxy.Latency(100 * time.Millisecond)
	want := s.fill(6, 3)
	var procs []*process
	for range 2 {
		procs = append(procs, s.launch(assignment{URL: url, Lanes: 3}, (*exec.Cmd).Start))
	}
	s.drained()
	proxy.Latency(0)
	s.stop(procs...)
	require.Equal(t, want, s.effects())
	s.replay()
	for _, e := range s.events() {
		require.LessOrEqual(t, e.attempt, 1, "%+v", e)
	}
}

// Connections are reset again and again, whatever is under way on them.
func TestResets(t *testing.T) {
	const groups, each, step = 10, 60, 5 // a reset every so many jobs, and enough left for some
	s := newSite(t)
	proxy, url := s.proxy()
	var procs []*process
	for range 2 {
		procs = append(procs, s.launch(assignment{URL: url, Lanes: 3, MaxAttempts: 100}, (*exec.Cmd).Start))
	}
	s.until("both at work, for a worker whose start fails ends", func() bool {
		return s.number(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE 'worker-%'
			AND query ILIKE 'listen%'`) == len(procs)
	})
	want := s.fill(groups, each)
	resets, broken := 0, 0
	left := s.jobs()
	s.within(6*patience, "an empty queue", func() bool {
		now := s.jobs()
		if now <= left-step && resets < 5 { // each costs a pause before the next dial
			left = now
			resets++
			broken += proxy.Reset()
		}
		return now == 0
	})
	s.stop(procs...)
	t.Log(resets, "resets of", broken, "connections")
	require.GreaterOrEqual(t, resets, 4)
	require.GreaterOrEqual(t, broken, 5*resets, "with the lanes at work")
	require.Equal(t, want, s.effects(), "each once, in order")
	s.requireStarts()
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.dead_letters"))
}

// A settled job, as the worker tells it.
type settled struct {
	job     int64
	attempt int
	outcome fifo.Outcome
}

// A remote is a worker in this process whose connections go through a proxy.
type remote struct {
	*site
	proxy   *netfault.Proxy
	started chan *fifo.Job
	proceed chan struct{}
	ended   chan error
	stop    context.CancelFunc

	mu  sync.Mutex
	all []settled
}

// remote starts the worker, with one lane. Each handler writes its effect, says that it has started, and waits.
func (s *site) remote() *remote {
	s.Helper()
	proxy, url := s.proxy()
	r := &remote{
		site: s, proxy: proxy,
		started: make(chan *fifo.Job), proceed: make(chan struct{}), ended: make(chan error, 1),
	}
	client := fifo.Open(pgtest.Connect(s, url), &fifo.Config{Hooks: []fifo.Hooks{{
		Settled: func(_ context.Context, job *fifo.Job, outcome fifo.Outcome, _ error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.all = append(r.all, settled{job.ID, job.Attempt(), outcome})
		},
	}}})
	s.Cleanup(func() { _ = client.Close() })
	worker := &fifo.Worker{Client: client, Concurrency: 1}
	worker.Handle(queue, r.handle)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(s.Context())
	go func() { r.ended <- worker.Run(ctx) }()
	s.Cleanup(func() {
		r.stop()
		require.NoError(s, <-r.ended)
	})
	return r
}

func (r *remote) handle(ctx context.Context, job *fifo.Job) error {
	if _, err := writeEffect(ctx, job); err != nil {
		return err
	}
	select {
	case r.started <- job:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-r.proceed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next waits for the next handler, and returns its job.
func (r *remote) next() *fifo.Job {
	r.Helper()
	return receive(r.T, patience, r.started, "a handler")
}

func (r *remote) settled() []settled {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]settled(nil), r.all...)
}

// The server has committed a job's completion, and the worker does not hear of it: the job is done, once, and the
// worker says that it does not know.
func TestReplyLostInCompletion(t *testing.T) {
	t.Parallel()
	t.Run("with the next claim", func(t *testing.T) { // COMMIT AND CHAIN
		s := newSite(t)
		ids := s.enqueue(message("g", task{}), message("g", task{}))
		r := s.remote()
		require.Equal(t, ids[0], r.next().ID)
		r.proxy.LoseCommits(1)
		r.proceed <- struct{}{}

		// The next job was claimed in the same breath, and lost with the connection before its handler ran.
		job := r.next()
		require.Equal(t, ids[1], job.ID)
		require.Equal(t, 2, job.Attempt(), "a claim that is lost is an attempt")
		s.requireLost(s.job(ids[1]).Failures, 1)
		r.proceed <- struct{}{}
		s.drained()
		s.until("the news of it", func() bool { return len(r.settled()) == 3 })
		require.Equal(t, 1, r.proxy.LostCommits())
		require.Equal(t, []settled{
			{ids[0], 1, fifo.Unknown}, {ids[1], 1, fifo.Retried}, {ids[1], 2, fifo.Succeeded},
		}, r.settled())
		require.Equal(t, map[string][]int64{"g": ids}, s.effects())
	})
	t.Run("with nothing behind it", func(t *testing.T) { // COMMIT
		s := newSite(t)
		ids := s.enqueue(message("g", task{}))
		r := s.remote()
		require.Equal(t, ids[0], r.next().ID)
		r.stop() // it takes no more
		r.proxy.LoseCommits(1)
		r.proceed <- struct{}{}
		s.until("the news of it", func() bool { return len(r.settled()) == 1 })
		require.Equal(t, 1, r.proxy.LostCommits())
		require.Equal(t, []settled{{ids[0], 1, fifo.Unknown}}, r.settled())
		require.Zero(t, s.jobs())
		require.Equal(t, map[string][]int64{"g": ids}, s.effects())
	})
}

// The server has committed an enqueue, and the producer gets an error that does not say that it failed.
func TestReplyLostInEnqueue(t *testing.T) {
	s := newSite(t)
	proxy, url := s.proxy()
	pool := pgtest.Connect(t, url)
	client := fifo.Open(pool, nil)
	t.Cleanup(func() { _ = client.Close() })
	ctx := t.Context()
	// Everything is prepared, and the schema checked.
	_, err := client.Enqueue(ctx, message("warm", task{}))
	require.NoError(t, err)
	_, err = client.Enqueue(ctx, message("warm", task{}), message("warm", task{}))
	require.NoError(t, err)

	calls := map[string]func(msg fifo.Message) error{
		"one": func(msg fifo.Message) error {
			proxy.LoseReplies(1, "INSERT 0 1")
			_, err := client.Enqueue(ctx, msg)
			return err
		},
		"two": func(msg fifo.Message) error {
			proxy.LoseReplies(1, `\d,\d`) // its ids
			_, err := client.Enqueue(ctx, msg, msg)
			return err
		},
	}
	ways := transactions(client, pool)
	for way, enqueue := range ways {
		calls[way] = func(msg fifo.Message) error {
			return enqueue(ctx, msg, func() error { proxy.LoseCommits(1); return nil })
		}
	}
	for group, enqueue := range calls {
		err := enqueue(message(group, task{}))
		require.Error(t, err, group)
		pgErr := new(pgconn.PgError)
		require.NotErrorAs(t, err, &pgErr, "%s: the server refused nothing", group)
		require.NotErrorIs(t, err, fifo.ErrInvalidMessage, group)
		want := 1
		if group == "two" {
			want = 2
		}
		if group == "one" || group == "two" { // the others' COMMIT, and its error, are the caller's
			require.False(t, pgconn.SafeToRetry(err), "%s: what was sent may have been done: %v", group, err)
		}
		require.Equal(t, want, s.number("SELECT count(*) FROM pgfifo.jobs WHERE group_id = $1", group), group)
	}
	require.Equal(t, 2, proxy.LostReplies())
	require.Equal(t, len(ways), proxy.LostCommits())
}
