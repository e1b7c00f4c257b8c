package tests

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commma/commma/internal/clock"
)

// scale is the share of the full size at which suites run: what COMMMA_SCALE says, as `make trials` does. It is 0 in
// `make test`, where each suite runs a sample.
func scale() float64 {
	s, err := strconv.ParseFloat(os.Getenv("COMMMA_SCALE"), 64)
	if err != nil || s < 0 {
		return 0
	}
	return s
}

// scaled is the number of trials at the present scale: at least one.
func scaled(full, sample int) int {
	if scale() == 0 {
		return sample
	}
	return max(1, int(math.Round(float64(full)*scale())))
}

// alongside lets a suite run beside others. Most wait far more than they work.
func alongside(t *testing.T) {
	t.Helper()
	t.Parallel()
}

// alone lets a suite that looks at the time have the machine for itself, except as a sample. Such suites run before those
// that run beside each other.
func alone(t *testing.T) {
	t.Helper()
	if scale() == 0 {
		t.Parallel()
	}
}

// tally is what a trial found.
type tally struct {
	Expected, Found  int64 // sessions; in the suites about privacy, events or changes; where requests wait, events
	Duplicates, Lost int64 // sessions that stand and must not, and those that must and do not
	Drift            int64 // seconds by which totals, days and boards are not what they must be
	Errors           int64 // processes and requests that failed and must not
	Leaked           int64 // rows, keys and cached values that hold what a user's mode does not keep, or a user who is gone
}

func (a *tally) add(b tally) {
	a.Expected += b.Expected
	a.Found += b.Found
	a.Duplicates += b.Duplicates
	a.Lost += b.Lost
	a.Drift += b.Drift
	a.Errors += b.Errors
	a.Leaked += b.Leaked
}

func (a *tally) faults() int64 { return a.Duplicates + a.Lost + a.Drift + a.Errors + a.Leaked }

// suite is a row of the table that `make trials` prints. Its trials may run at the same time.
type suite struct {
	t       *testing.T
	name    string
	planned int // 0 when only the end shows how many there are
	without string
	start   time.Time

	mu     sync.Mutex
	trials int
	sum    tally
	told   time.Time
}

// newSuite opens a suite of so many trials, which ends with the test. Any fault in it fails the test.
func newSuite(t *testing.T, name string, planned int) *suite {
	t.Helper()
	return openSuite(t, name, planned, "")
}

// newSuiteWithout opens a suite with a guard taken out. It fails the test when no fault shows: then it would not see one
// either if the guard were broken.
func newSuiteWithout(t *testing.T, guard, name string, planned int) *suite {
	t.Helper()
	return openSuite(t, name+", without "+guard, planned, guard)
}

func openSuite(t *testing.T, name string, planned int, without string) *suite {
	now := clock.System{}.Now()
	s := &suite{t: t, name: name, planned: planned, without: without, start: now, told: now}
	t.Cleanup(s.close)
	return s
}

// add books a trial, and says now and then how far the suite is.
func (s *suite) add(found tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials++
	s.sum.add(found)
	if s.without == "" && found.faults() != 0 {
		s.t.Errorf("%s, trial %d: %+v", s.name, s.trials, found)
	}
	now := clock.System{}.Now()
	if scale() == 0 || now.Sub(s.told) < tellEvery {
		return
	}
	s.told = now
	of := ""
	if s.planned > 0 {
		of = fmt.Sprintf(" of %d", s.planned)
	}
	fmt.Fprintf(os.Stderr, "%s: %d%s trials, %.0f s\n", s.name, s.trials, of, now.Sub(s.start).Seconds())
}

// tellEvery is the time between two lines about a suite's progress.
const tellEvery = 10 * time.Second

// judge fails a suite that has shown nothing: one that found no fault without its guard, or that looked at less than it was
// to look at. The lock is held.
func (s *suite) judge() {
	// Whoever asks for a part of a test gets a part of its trials.
	isPart := strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	switch {
	case s.without != "" && s.sum.faults() == 0:
		s.t.Errorf("%s: no fault in %d trials: the suite would not see a broken %s", s.name, s.trials, s.without)
	case s.trials == 0:
		s.t.Errorf("%s: no trial was made", s.name)
	case s.without == "" && s.trials < s.planned && !isPart:
		s.t.Errorf("%s: only %d of %d trials were made", s.name, s.trials, s.planned)
	case s.without == "" && s.sum.Expected == 0:
		s.t.Errorf("%s: nothing was expected in %d trials", s.name, s.trials)
	}
}

func (s *suite) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.t.Failed() {
		s.judge()
	}
	row := fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %.0f |", s.name, s.trials, s.sum.Expected, s.sum.Found,
		s.sum.Duplicates, s.sum.Lost, s.sum.Drift, s.sum.Errors, s.sum.Leaked, clock.System{}.Now().Sub(s.start).Seconds())
	table.Lock()
	defer table.Unlock()
	table.rows = append(table.rows, row)
	if scale() > 0 {
		fmt.Fprintln(os.Stderr, row)
	}
}

// table collects the rows of all suites.
var table struct {
	sync.Mutex
	rows []string
}

// printTable prints what all suites found, as it stands in docs/reliability.md.
func printTable(context.Context) error {
	table.Lock()
	defer table.Unlock()
	if scale() == 0 || len(table.rows) == 0 {
		return nil
	}
	head := "| suite | trials | sessions expected | found | duplicates | lost | drift, s | errors | leaked | took, s |"
	rule := strings.Repeat("| --- ", strings.Count(head, "|")-1) + "|"
	_, err := fmt.Printf("\n%s\n%s\n%s\n\n", head, rule, strings.Join(table.rows, "\n"))
	return err
}
