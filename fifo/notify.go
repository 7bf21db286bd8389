package fifo

import (
	"encoding/json"

	"github.com/pgfifo/pgfifo/groups"
)

// A notice tells workers where messages were enqueued or redriven, and what was resumed. It is a hint: workers poll as
// well. The channel is the schema's name, the payload this as JSON.
type notice struct {
	Queue  string      `json:"q"`
	Groups []groupHint `json:"g,omitempty"` // none: look for yourself
	Back   bool        `json:"b,omitempty"` // there may be jobs with old ids among them
	Urgent bool        `json:"u,omitempty"` // there are jobs with a priority among them
	Cancel bool        `json:"c,omitempty"` // end what runs there, or in all of the queue; it says nothing else
	Paused int64       `json:"p,omitempty"` // since when: see hints.cancel
}

type groupHint struct {
	GroupID string `json:"g"`
	ID      int64  `json:"i"` // the lowest new job; 0: not known
}

const (
	noticeBytes = 7900 // PostgreSQL allows 7999
	// noticeHints is how many groups a notice names: as many as it has room for. JSON writes quotes, backslashes, <, >
	// and & as several bytes, so a notice with many of these in its names may be too long: then it names no groups.
	noticeHints = (noticeBytes - groups.MaxIDBytes - len(`{"q":"","g":[],"b":true,"u":true}`)) /
		(groups.MaxIDBytes + len(`{"g":"","i":9223372036854775807},`))
)

func (n notice) String() string {
	b, err := json.Marshal(n)
	if err != nil || len(b) > noticeBytes {
		b, _ = json.Marshal(notice{Queue: n.Queue, Back: n.Back, Urgent: n.Urgent})
	}
	return string(b)
}

// hints are what is to be announced, by queue.
type hints map[string]*hint

type hint struct {
	groups map[string]int64 // the lowest new id of each; more than noticeHints: too many to name them
	all    bool             // it may be any group
	back   bool
	urgent bool
	cancel map[string]int64 // the canceled groups, and since when each is paused; "": the queue
}

func (h hints) of(queue string) *hint {
	q := h[queue]
	if q == nil {
		q = &hint{groups: make(map[string]int64)}
		h[queue] = q
	}
	return q
}

// cancel tells that what runs in a group, or for "" in the queue, was canceled by a pause that began at this time, in
// microseconds. A worker obeys if that pause is still there. 0: the group was taken from its session.
func (h hints) cancel(queue, group string, at int64) {
	q := h.of(queue)
	if q.cancel == nil {
		q.cancel = make(map[string]int64)
	}
	q.cancel[group] = max(q.cancel[group], at)
}

// addCancels tells of what was canceled, and of nothing else.
func (h hints) addCancels(more hints) {
	for queue, q := range more {
		for group, at := range q.cancel {
			h.cancel(queue, group, at)
		}
	}
}

// canceled reports whether there is a Cancel among them.
func (h hints) canceled() bool {
	for _, q := range h {
		if len(q.cancel) > 0 {
			return true
		}
	}
	return false
}

func (h hints) add(queue, group string, id int64, back bool) {
	q := h.of(queue)
	q.back = q.back || back
	lowest, known := q.groups[group]
	if known && id < lowest || !known && len(q.groups) <= noticeHints {
		q.groups[group] = id
	}
}

// addBatch tells of new jobs.
func (h hints) addBatch(b batch) {
	for _, e := range b {
		h.add(e.queue, e.group, e.ID, false)
		if e.priority > 0 {
			h.of(e.queue).urgent = true
		}
	}
}

func (h hints) addAll(more hints) {
	for queue, q := range more {
		mine := h.of(queue)
		mine.all, mine.urgent = mine.all || q.all, mine.urgent || q.urgent
		for group, id := range q.groups {
			h.add(queue, group, id, q.back)
		}
	}
	h.addCancels(more)
}

// notices returns one notice for each queue, and one for each Cancel.
func (h hints) notices() []string {
	var texts []string
	for queue, q := range h {
		for group, at := range q.cancel {
			n := notice{Queue: queue, Cancel: true, Paused: at}
			if group != "" {
				n.Groups = []groupHint{{GroupID: group}}
			}
			texts = append(texts, n.String())
		}
		if !q.all && len(q.groups) == 0 {
			continue
		}
		n := notice{Queue: queue, Back: q.back, Urgent: q.urgent}
		for group, id := range q.groups {
			n.Groups = append(n.Groups, groupHint{group, id})
		}
		if q.all || len(n.Groups) > noticeHints {
			n.Groups = nil
		}
		texts = append(texts, n.String())
	}
	return texts
}
