package aggregate

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/activity"
)

// history is what stands of one user: the pure counterpart of the tables.
type history struct {
	sessions []placed
	totals   map[totalKey]int64
	aliases  map[uuid.UUID]uuid.UUID
}

// finalize adds the ended runs of hot events to a history in the way that the finalizer does it.
func (h *history) finalize(t require.TestingT, sel selection, zones Zones) {
	win := &window{seconds: map[DayLang]int64{}, zones: zones}
	var kept []placed
	for _, s := range h.sessions {
		touched := slices.ContainsFunc(sel.runs, func(r stretch) bool {
			return s.Last >= r.first-activity.IdleSeconds && s.First <= r.last+activity.IdleSeconds
		})
		if !touched {
			kept = append(kept, s)
			continue
		}
		win.sessions = append(win.sessions, standing{s.id, stretch{s.First, s.Last}})
		win.events = append(win.events, s.Events...)
		for k, n := range s.Seconds {
			win.seconds[k] += n
		}
	}
	p, err := makePlan(win, sel.events, uuid.New)
	require.NoError(t, err)
	if !p.changed {
		return
	}
	h.sessions = append(kept, p.sessions...)
	slices.SortFunc(h.sessions, func(a, b placed) int { return int(a.First - b.First) })
	for _, d := range p.deltas {
		h.totals[d.totalKey] += d.seconds
	}
	for _, s := range p.sessions {
		for _, id := range s.absorbed {
			h.aliases[id] = s.id
		}
	}
}

// Whatever is uploaded in whatever pieces, with cycles in between and copies sent again, what stands in the end is what
// one pass over everything builds.
func TestPiecesEqualOnePass(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		zones := drawZones(t, events)
		want, err := Build(Fold(slices.Clone(events)), zones)
		require.NoError(t, err)

		h := &history{totals: map[totalKey]int64{}, aliases: map[uuid.UUID]uuid.UUID{}}
		var hot hotSet
		var seq int64
		arriving := rapid.Permutation(slices.Concat(events, events[:len(events)/3])).Draw(t, "order")
		for len(arriving) > 0 {
			n := rapid.IntRange(1, len(arriving)).Draw(t, "batch")
			for _, e := range arriving[:n] {
				hot.events = append(hot.events, e)
				hot.seqs = append(hot.seqs, seq)
				seq++
			}
			arriving = arriving[n:]
			now := rapid.SampledFrom(events).Draw(t, "now").Second() + rapid.SampledFrom([]int64{0, 900, 901, 90000}).Draw(t, "later")
			hot = h.cycle(t, hot, now, zones)
		}
		hot = h.cycle(t, hot, 1<<40, zones)
		require.Empty(t, hot.events)

		var got []Session
		ids := map[uuid.UUID]bool{}
		for _, s := range h.sessions {
			got = append(got, s.Session)
			require.False(t, ids[s.id], "every session has an id of its own")
			ids[s.id] = true
		}
		require.Equal(t, want, got)
		sums := map[DayLang]int64{}
		for _, s := range want {
			for k, n := range s.Seconds {
				sums[k] += n
			}
		}
		for _, d := range totalDeltas(sums) {
			require.Equal(t, d.seconds, h.totals[d.totalKey])
			delete(h.totals, d.totalKey)
		}
		for k, n := range h.totals {
			require.Zero(t, n, "total %v", k)
		}
		for alias := range h.aliases {
			require.False(t, ids[alias], "an absorbed id is no session any more")
		}
	})
}

// cycle finalizes what has ended and returns what stays hot.
func (h *history) cycle(t *rapid.T, hot hotSet, now int64, zones Zones) hotSet {
	sel := hot.ended(now, nil)
	h.finalize(t, sel, zones)
	var rest hotSet
	for i, seq := range hot.seqs {
		if !slices.Contains(sel.seqs, seq) {
			rest.events = append(rest.events, hot.events[i])
			rest.seqs = append(rest.seqs, seq)
		}
	}
	return rest
}

func planOf(t *testing.T, sessions []standing, known, fresh []activity.Event) plan {
	t.Helper()
	p, err := makePlan(&window{sessions: sessions, events: known, zones: Zones{{0, "UTC"}}}, fresh, uuid.New)
	require.NoError(t, err)
	return p
}

func TestMergeKeepsTheEarliestID(t *testing.T) {
	t.Parallel()
	a, b := at(noon, "go", 1), at(noon+1800, "go", 1)
	first, second := uuid.New(), uuid.New()
	sessions := []standing{{first, stretch{noon, noon}}, {second, stretch{noon + 1800, noon + 1800}}}

	p := planOf(t, sessions, []activity.Event{a, b}, []activity.Event{at(noon+900, "go", 1)})
	require.Len(t, p.sessions, 1)
	require.Equal(t, first, p.sessions[0].id)
	require.Equal(t, []uuid.UUID{second}, p.sessions[0].absorbed)
	require.Equal(t, []uuid.UUID{second}, p.gone)

	// One second short of either neighbour's reach, nothing merges.
	p = planOf(t, sessions[:1], []activity.Event{a}, []activity.Event{at(noon+901, "go", 1)})
	require.Len(t, p.sessions, 2)
	require.Equal(t, first, p.sessions[0].id)
	require.Empty(t, p.gone)
}

func TestSentAgainIsUnchanged(t *testing.T) {
	t.Parallel()
	a := at(noon, "go", 1)
	p := planOf(t, []standing{{uuid.New(), stretch{noon, noon}}}, []activity.Event{a}, []activity.Event{a, a})
	require.False(t, p.changed)

	smaller := a
	smaller.Lang = "c"
	p = planOf(t, []standing{{uuid.New(), stretch{noon, noon}}}, []activity.Event{a}, []activity.Event{smaller})
	require.True(t, p.changed, "a smaller copy replaces what was kept")
	require.Equal(t, "c", p.sessions[0].TopLang)
}

func TestWhichRunsHaveEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		now  int64
		want int // events used
	}{
		{"idle time not over", noon + 900, 0},
		{"a second over", noon + 901, 1},
	} {
		hot := hotSet{events: []activity.Event{at(noon, "go", 1)}, seqs: []int64{7}}
		sel := hot.ended(c.now, nil)
		require.Len(t, sel.seqs, c.want, c.name)
		require.Len(t, sel.open, 1-c.want, c.name)
	}
	// An open run is finalized as it stands once it is a day old.
	var hot hotSet
	for s := int64(0); s <= openLimit; s += 900 {
		hot.events = append(hot.events, at(noon+s, "go", 1))
		hot.seqs = append(hot.seqs, s)
	}
	require.Empty(t, hot.ended(noon+openLimit-1, nil).seqs)
	require.Len(t, hot.ended(noon+openLimit, nil).seqs, len(hot.events))
}

func TestOpenRunsStay(t *testing.T) {
	t.Parallel()
	hot := hotSet{
		events: []activity.Event{at(noon, "go", 1), at(noon+2000, "go", 1), at(noon+2500, "go", 1)},
		seqs:   []int64{1, 2, 3},
	}
	sel := hot.ended(noon+2600, nil)
	require.Equal(t, []int64{1}, sel.seqs)
	require.Equal(t, []stretch{{noon + 2000, noon + 2500}}, sel.open)
	sel = hot.ended(noon+2600, []stretch{{noon + 2000, noon + 2499}})
	require.Equal(t, []int64{1, 2}, sel.seqs, "what was deleted is used up at once")
	require.Equal(t, []stretch{{noon + 2500, noon + 2500}}, sel.open)
}
