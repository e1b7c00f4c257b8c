package ingest

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// queue holds requests that wait to be stored and hands them out fairly: users take turns, and a group takes at most one
// request of each. However much one user sends, another's request waits behind at most one group. It is safe for
// concurrent use.
type queue struct {
	mu      sync.Mutex
	waiting map[uuid.UUID][]*request
	turns   []uuid.UUID // users with something waiting who are not parked, next one first
	parked  map[uuid.UUID]bool
	size    int // of all that waits, parked or not
	max     int // size that may wait in all
	maxUser int // requests that may wait per user
	ready   chan struct{}
}

func newQueue(maxSize, maxRequestsPerUser int) *queue {
	return &queue{
		waiting: make(map[uuid.UUID][]*request),
		parked:  make(map[uuid.UUID]bool),
		max:     maxSize,
		maxUser: maxRequestsPerUser,
		ready:   make(chan struct{}, 1),
	}
}

// push takes a request in, or says that there is no room for it. An empty queue has room for any request.
func (q *queue) push(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	mine := q.waiting[r.userID]
	if len(mine) >= q.maxUser || q.size > 0 && q.size+r.size() > q.max {
		return false
	}
	if len(mine) == 0 && !q.parked[r.userID] {
		q.turns = append(q.turns, r.userID)
	}
	q.waiting[r.userID] = append(mine, r)
	q.size += r.size()
	q.signal()
	return true
}

// park puts a request that was popped back to the front of its user, who then has no turn for a while. It counts as
// waiting, so a user who is locked cannot pile up more than others may, and is asked for once per pause.
func (q *queue) park(r *request, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	mine := q.waiting[r.userID]
	q.waiting[r.userID] = append([]*request{r}, mine...)
	q.size += r.size()
	if q.parked[r.userID] {
		return // another request of the user was parked a moment ago
	}
	q.parked[r.userID] = true
	q.turns = slices.DeleteFunc(q.turns, func(id uuid.UUID) bool { return id == r.userID })
	time.AfterFunc(pause, func() { q.unpark(r.userID) })
}

func (q *queue) unpark(user uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.parked, user)
	q.turns = append(q.turns, user)
	q.signal()
}

// pop takes the next group out: one request of each user whose turn it is, until maxUsers or maxSize is reached. It is
// empty when nobody has a turn. Requests whose caller has given up are dropped on the way.
func (q *queue) pop(maxUsers, maxSize int) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	var group []*request
	size := 0
	for range len(q.turns) {
		user := q.turns[0]
		r := q.waiting[user][0]
		if r.ctx.Err() == nil {
			if len(group) == maxUsers || len(group) > 0 && size+r.size() > maxSize {
				break
			}
			group = append(group, r)
			size += r.size()
		}
		q.turns = q.turns[1:]
		q.size -= r.size()
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

// drained says whether nothing waits, parked or not.
func (q *queue) drained() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0
}

// signal wakes one flusher; the signal stays until one takes it.
func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
