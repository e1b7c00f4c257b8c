package bench

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// noon is the present of these benchmarks.
var noon = time.Date(2026, time.June, 17, 12, 0, 0, 0, time.UTC)

const defaultScale = 0.01

// scaled is a size at the present scale: at least so much.
func scaled(full, least int) int {
	scale, err := strconv.ParseFloat(os.Getenv("COMMMA_BENCH_SCALE"), 64)
	if err != nil || scale <= 0 {
		scale = defaultScale
	}
	return max(least, int(float64(full)*scale))
}

func timed(fn func()) time.Duration {
	c := clock.System{}
	began := c.Now()
	fn()
	return c.Now().Sub(began)
}

// each is the time of one of so many calls.
func each(calls int, fn func()) func() time.Duration {
	return func() time.Duration {
		return timed(func() {
			for range calls {
				fn()
			}
		}) / time.Duration(calls)
	}
}

// duel lets a reference and a subject run in turn, so that whatever else the machine does meets both. It reports the
// medians, and that of the ratios of neighbours.
func duel(b *testing.B, reference, subject func() time.Duration) (ref, subj time.Duration) {
	b.Helper()
	reference()
	subject()
	var refs, subjs []time.Duration
	var ratios []float64
	for b.Loop() {
		var r, s time.Duration
		if len(refs)%2 == 0 {
			r, s = reference(), subject()
		} else {
			s, r = subject(), reference()
		}
		refs, subjs, ratios = append(refs, r), append(subjs, s), append(ratios, float64(s)/float64(r))
	}
	ref, subj = median(refs), median(subjs)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(millis(ref), "ref-ms")
	b.ReportMetric(millis(subj), "ms")
	b.ReportMetric(median(ratios), "ratio")
	return ref, subj
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

func median[T int64 | float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
