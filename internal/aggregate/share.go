package aggregate

import (
	"cmp"
	"slices"

	"github.com/commma/commma/internal/activity"
)

// weight is how much of a slice belongs to a language.
type weight struct {
	lang string
	n    int64
}

// weigh appends to buf how the events at one second share what they stand for: by keystrokes, or equally per event when
// nobody typed. Languages come in byte order.
func weigh(buf []weight, events []activity.Event) []weight {
	var typed int64
	for i := range events {
		typed += int64(events[i].Keystrokes)
	}
	for i := range events {
		n := int64(1)
		if typed > 0 {
			n = int64(events[i].Keystrokes)
		}
		buf = append(buf, weight{events[i].Lang, n})
	}
	if len(buf) < 2 {
		return buf
	}
	slices.SortFunc(buf, func(a, b weight) int { return cmp.Compare(a.lang, b.lang) })
	merged := buf[:1]
	for _, w := range buf[1:] {
		if last := &merged[len(merged)-1]; last.lang == w.lang {
			last.n += w.n
		} else {
			merged = append(merged, w)
		}
	}
	return merged
}

// share splits whole seconds among weights by largest remainder and calls give for each language that gets any: first
// everyone's share rounded down, then one second each to the largest remainders, ties to the bytewise smaller key.
// Weights must come in byte order and have a positive sum. The shares always add up to seconds.
func share(seconds int64, weights []weight, give func(lang string, seconds int64)) {
	if len(weights) == 1 {
		give(weights[0].lang, seconds)
		return
	}
	var sum int64
	for _, w := range weights {
		sum += w.n
	}
	type part struct{ whole, rest, index int64 }
	parts := make([]part, len(weights))
	left := seconds
	for i, w := range weights {
		// At most 900 s times 1e6 keystrokes times the events of one second: far inside 64 bits.
		parts[i] = part{seconds * w.n / sum, seconds * w.n % sum, int64(i)}
		left -= parts[i].whole
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.rest, a.rest), cmp.Compare(a.index, b.index))
	})
	for i, p := range parts {
		if int64(i) < left {
			p.whole++
		}
		if p.whole > 0 {
			give(weights[p.index].lang, p.whole)
		}
	}
}
