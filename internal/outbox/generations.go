package outbox

import (
	"slices"
	"sync"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/leaderboard"
)

// generations remembers the generation of each board. It may be out of date, which costs a round; what it must never be
// is newer than the totals it is published with. So a round takes a reading before it reads totals, and sees only what
// was learned before that, whatever other rounds of this process learn meanwhile.
type generations struct {
	mu    sync.Mutex
	clock int64
	known map[leaderboard.Board]learned
	spans []calendar.Span // those that were asked to be kept last
}

type learned struct {
	generation string
	at         int64
}

// reading is a moment in the life of a generations.
type reading int64

func (g *generations) now() reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	return reading(g.clock)
}

// get is the generation of a board as it was known at r, and "" when nothing was, or when something else was learned
// since.
func (g *generations) get(b leaderboard.Board, r reading) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l, ok := g.known[b]; ok && l.at <= int64(r) {
		return l.generation
	}
	return ""
}

func (g *generations) learn(b leaderboard.Board, generation string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil {
		g.known = make(map[leaderboard.Board]learned)
	}
	if g.known[b].generation == generation {
		return // known for longer
	}
	g.clock++
	g.known[b] = learned{generation: generation, at: g.clock}
}

// keep forgets the boards of other spans.
func (g *generations) keep(spans []calendar.Span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.Equal(g.spans, spans) {
		return // as nearly always
	}
	g.spans = spans
	for b := range g.known {
		if !slices.Contains(spans, b.Span) {
			delete(g.known, b)
		}
	}
}
