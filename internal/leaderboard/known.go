package leaderboard

import (
	"sync"

	"github.com/google/uuid"
)

// stand is one state of a board in Redis: its generation, and the time of its last publication, which no two states of a
// generation share. While both are the same nobody's rank has changed, whoever wrote; so what is known of a stand need not
// be asked again, and what changes a board, a change of mode too, makes all of it unknown.
type stand struct {
	generation string
	at         int64 // ms
}

// known are ranks that were read from Redis, by the stand they belong to. Pages compare with boards that hardly change any
// more, those of the span before, and to rank a hundred users costs more than the page itself.
type known struct {
	mu     sync.RWMutex
	boards map[Board]knownRanks
}

// knownRanks never change: more of a stand, or another one, is another value.
type knownRanks struct {
	of    stand
	ranks map[uuid.UUID]int64 // 0 for who has no place
}

// Bounds of what is kept. The pages that are read most are the first ones of few boards.
const (
	maxKnownBoards = 64
	maxKnownRanks  = 2000 // of a board
)

// get returns ranks that hold all of the users, nil when not all are known. Nobody may write to them.
func (k *known) get(b Board, of stand, users []uuid.UUID) map[uuid.UUID]int64 {
	k.mu.RLock()
	held := k.boards[b]
	k.mu.RUnlock()
	if held.of != of {
		return nil
	}
	for _, u := range users {
		if _, ok := held.ranks[u]; !ok {
			return nil
		}
	}
	return held.ranks
}

// put keeps the ranks of users; those who are not in ranks have no place.
func (k *known) put(b Board, of stand, users []uuid.UUID, ranks map[uuid.UUID]int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	held := k.boards[b]
	next := knownRanks{of: of, ranks: make(map[uuid.UUID]int64, len(users))}
	if held.of == of && len(held.ranks)+len(users) <= maxKnownRanks {
		for u, rank := range held.ranks {
			next.ranks[u] = rank
		}
	}
	for _, u := range users {
		next.ranks[u] = ranks[u]
	}
	if k.boards == nil {
		k.boards = make(map[Board]knownRanks)
	}
	if _, ok := k.boards[b]; !ok && len(k.boards) >= maxKnownBoards {
		for other := range k.boards { // any: they are asked for again if they are wanted
			delete(k.boards, other)
			break
		}
	}
	k.boards[b] = next
}
