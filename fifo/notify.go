package fifo

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// A notice tells workers where messages were enqueued. It is a hint: workers poll as well. The channel is the schema's
// name, the payload this as JSON.
//
// NOTIFY takes a lock of the whole cluster when its transaction commits (PostgreSQL's async.c), so it is kept out of
// the enqueues: a client says at most one thing at a time, on its own, and what is enqueued meanwhile goes into the
// next. Inside a caller's transaction, which only the caller commits, there is no other way; there it is said at most
// once every noticeGap, and for those in between once more a little later, when most of them will have committed.
type notice struct {
	Queue  string      `json:"q"`
	Groups []groupHint `json:"g,omitempty"` // none: look for yourself
	Back   bool        `json:"b,omitempty"` // there may be jobs with old ids among them
}

type groupHint struct {
	GroupID string `json:"g"`
	ID      int64  `json:"i"` // the lowest new job, or 0: not known yet
}

const (
	noticeGap   = 10 * time.Millisecond
	noticeRate  = 1500 // a second, beyond noticeBurst; a client that enqueues more often waits a little between two
	noticeBurst = 16
	noticeMany  = 6    // groups
	noticeBytes = 7900 // PostgreSQL allows 7999
	noticeHints = 40
)

func (n notice) String() string {
	b, err := json.Marshal(n)
	if err != nil || len(b) > noticeBytes {
		b, _ = json.Marshal(notice{Queue: n.Queue, Back: n.Back})
	}
	return string(b)
}

// An announcer sends a client's notices.
type announcer struct {
	client *Client
	off    bool

	mu      sync.Mutex
	pending map[groups.Key]int64 // the lowest new id of each group; for an empty group id, "look at the queue"
	back    map[string]bool      // queues into which jobs were put back
	last    map[string]time.Time // when a notice went into a caller's transaction, by queue
	trails  map[string]bool      // queues for which one more notice is on its way
	sending bool
	tokens  float64   // notices that may be sent without a pause; the sender's own
	counted time.Time // when the tokens were last counted
	ctx     context.Context
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

func (a *announcer) init(c *Client) {
	a.client, a.off = c, c.cfg.PollOnly
	a.pending, a.last = make(map[groups.Key]int64), make(map[string]time.Time)
	a.trails, a.back = make(map[string]bool), make(map[string]bool)
	a.ctx, a.cancel = context.WithCancel(context.Background())
}

func (a *announcer) close() {
	a.cancel()
	a.done.Wait()
}

// later announces jobs that are committed; back says that they have had their ids before.
func (a *announcer) later(b *batch, ids []int64, back bool) {
	if a.off {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	for i, id := range ids {
		key := groups.Key{Queue: b.queues[i], GroupID: b.groups[i]}
		if lowest, ok := a.pending[key]; !ok || id < lowest { // a redrive's may be pending still
			a.pending[key] = id
		}
		if back {
			a.back[key.Queue] = true
		}
	}
	a.start()
}

// start sends what is pending, unless that is under way. The caller holds the lock.
func (a *announcer) start() {
	if !a.sending && len(a.pending) > 0 && a.ctx.Err() == nil {
		a.sending = true
		a.done.Add(1)
		go a.send()
	}
}

// trail sees to it that one more notice of the queue is said soon. The caller holds the lock.
func (a *announcer) trail(queue string) {
	if a.trails[queue] {
		return
	}
	a.trails[queue] = true
	time.AfterFunc(3*noticeGap, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.trails, queue)
		a.pending[groups.Key{Queue: queue}] = 0
		a.start()
	})
}

// now returns what to say inside the caller's transaction, or nothing.
func (a *announcer) now(b *batch) string {
	if a.off {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	queue, n := b.queues[0], notice{Queue: b.queues[0]}
	if time.Since(a.last[queue]) < noticeGap {
		a.trail(queue)
		return ""
	}
	if len(a.last) > 1000 {
		clear(a.last) // so many queues are nobody's steady state
	}
	a.last[queue] = time.Now()
	seen := make(map[string]bool)
	for i := range b.queues {
		if b.queues[i] != queue || len(seen) > noticeHints {
			return notice{Queue: queue}.String() // the rest is found by looking
		}
		if !seen[b.groups[i]] {
			seen[b.groups[i]] = true
			n.Groups = append(n.Groups, groupHint{GroupID: b.groups[i]})
		}
	}
	return n.String()
}

// send says what is pending until nothing is.
func (a *announcer) send() {
	defer a.done.Done()
	for {
		a.mu.Lock()
		if len(a.pending) == 0 || a.ctx.Err() != nil {
			a.sending = false
			a.mu.Unlock()
			return
		}
		notices, looks := make(map[string]*notice), make(map[string]bool)
		for key, id := range a.pending {
			n := notices[key.Queue]
			if n == nil {
				n = &notice{Queue: key.Queue, Back: a.back[key.Queue]}
				notices[key.Queue] = n
			}
			if key.GroupID == "" {
				looks[key.Queue] = true
				continue
			}
			n.Groups = append(n.Groups, groupHint{key.GroupID, id})
		}
		told := len(a.pending)
		clear(a.pending)
		clear(a.back)
		a.mu.Unlock()
		texts := make([]string, 0, len(notices))
		for _, n := range notices {
			if looks[n.Queue] || len(n.Groups) > noticeHints {
				n.Groups = nil
			}
			texts = append(texts, n.String())
		}
		ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
		_, err := a.client.pool.Exec(ctx, "SELECT pg_notify($1, n) FROM pg_catalog.unnest($2::text[]) AS n", a.client.schema.String(), texts)
		cancel()
		if err != nil && a.ctx.Err() == nil {
			a.client.cfg.Logger.Debug("pgfifo: notify failed; workers will poll", "error", err)
		}
		a.pace(told)
	}
}

// pace takes a token for what was sent; two if it told of many groups, for whoever enqueues that fast needs notices less than
// the server's time. Without any it waits: what is enqueued meanwhile shares the next notice.
func (a *announcer) pace(told int) {
	cost := 1.0
	if told >= noticeMany {
		cost = 2
	}
	now := time.Now()
	a.tokens = min(noticeBurst, a.tokens+now.Sub(a.counted).Seconds()*noticeRate) - cost
	a.counted = now
	if a.tokens >= 0 {
		return
	}
	timer := time.NewTimer(time.Duration(cost) * time.Second / noticeRate)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.ctx.Done():
	}
}
