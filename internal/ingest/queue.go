package ingest

import (
	"sync"

	"github.com/google/uuid"
)

// queue holds requests that wait to be stored and hands them out fairly: users take turns, and a group takes at most one
// request of each. However much one user sends, another's request waits behind at most one group. It is safe for
// concurrent use.
type queue struct {
	mu      sync.Mutex
	waiting map[uuid.UUID][]*request
	turns   []uuid.UUID // users with something waiting, next one first
	events  int
	max     int // events that may wait in all
	maxUser int // requests that may wait per user
	ready   chan struct{}
}

func newQueue(maxEvents, maxRequestsPerUser int) *queue {
	return &queue{
		waiting: make(map[uuid.UUID][]*request),
		max:     maxEvents,
		maxUser: maxRequestsPerUser,
		ready:   make(chan struct{}, 1),
	}
}

// push takes a request in, or says that there is no room for it. An empty queue has room for any request.
func (q *queue) push(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	mine := q.waiting[r.userID]
	if len(mine) >= q.maxUser || q.events > 0 && q.events+r.size() > q.max {
		return false
	}
	if len(mine) == 0 {
		q.turns = append(q.turns, r.userID)
	}
	q.waiting[r.userID] = append(mine, r)
	q.events += r.size()
	q.signal()
	return true
}

// pop takes the next group out: one request of each user whose turn it is, until maxUsers or maxEvents is reached. It is
// empty when nothing waits. Requests whose caller has given up are dropped on the way.
func (q *queue) pop(maxUsers, maxEvents int) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	var group []*request
	events := 0
	turns := len(q.turns)
	for range turns {
		user := q.turns[0]
		r := q.waiting[user][0]
		if r.ctx.Err() == nil {
			if len(group) == maxUsers || len(group) > 0 && events+r.size() > maxEvents {
				break
			}
			group = append(group, r)
			events += r.size()
		}
		q.turns = q.turns[1:]
		q.events -= r.size()
		if rest := q.waiting[user][1:]; len(rest) > 0 {
			q.waiting[user] = rest
			q.turns = append(q.turns, user)
		} else {
			delete(q.waiting, user)
		}
	}
	if len(q.turns) > 0 {
		q.signal()
	}
	return group
}

// signal wakes one flusher; the signal stays until one takes it.
func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
