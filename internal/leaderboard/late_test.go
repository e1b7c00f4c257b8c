package leaderboard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
)

// fillBut fills a build and calls fn before each page is read.
func (w *build) fillBut(f *fixture, fn func(page int)) error {
	slow := *w
	slow.Builder = f.stoppingBuilder(fn)
	_, err := slow.fill(f.ctx)
	return err
}

// TestALateCopyOfBeginDuringItsBuild: a client that saw no answer sends begin again, and the first copy arrives after
// chunks were written and removals were noted. It must neither empty what is gathered nor forget who has left.
func TestALateCopyOfBeginDuringItsBuild(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "")
	want := f.seed(b, 2*chunkRows+7)
	w := f.newBuild(b)
	require.NoError(t, w.begin(t.Context()))
	require.NoError(t, w.fillBut(f, func(page int) {
		if page != 2 {
			return
		}
		require.True(t, f.publish(b, "", Row{User: userID(2), Version: 5}).Noted)
		require.NoError(t, w.begin(t.Context()))
	}))
	require.NoError(t, w.swap(t.Context()))
	delete(want, userID(2))
	require.Equal(t, want, f.scores(b))
}

// TestALateCopyOfBeginAfterItsBuild must take down neither the board that was made, nor what another build has made since.
// Else a late copy of the swap could put an empty board in place, too.
func TestALateCopyOfBeginAfterItsBuild(t *testing.T) {
	t.Parallel()
	b := boardOf(calendar.PeriodDay, "")
	for name, end := range map[string]func(f *fixture, w *build){
		"finished": func(f *fixture, w *build) { require.NoError(f.t, w.swap(f.ctx)) },
		"finished, and built again": func(f *fixture, w *build) {
			require.NoError(f.t, w.swap(f.ctx))
			f.build(b)
		},
		"given up": func(f *fixture, w *build) { w.discard(f.ctx); f.build(b) },
		"lost":     func(f *fixture, w *build) { f.rdb.Del(f.ctx, w.keys.building); w.discard(f.ctx); f.build(b) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			want := f.seed(b, 3)
			w := f.newBuild(b)
			require.NoError(t, w.begin(t.Context()))
			_, err := w.fill(t.Context())
			require.NoError(t, err)
			end(f, w)
			require.ErrorIs(t, w.begin(t.Context()), ErrBuildLost)
			require.Equal(t, want, f.scores(b))
			require.Zero(t, f.rdb.Exists(t.Context(), w.keys.building).Val(), "nobody waits for a build that is over")
			_ = w.swap(t.Context())
			require.Equal(t, want, f.scores(b))
		})
	}
}

// TestABeginThatComesLateStartsNothing, as one that waited in a server that hung, while everybody gave up.
func TestABeginThatComesLateStartsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "")
	want := f.seed(b, 3)
	f.build(b)
	now, err := f.boards.Time(t.Context())
	require.NoError(t, err)
	late := f.newBuild(b)
	require.ErrorIs(t, late.beginBy(t.Context(), now.Unix()-1), ErrBuildLost)
	require.Equal(t, want, f.scores(b))
	require.Less(t, beginWithin, tokenLife, "a copy that is in time finds the token of a build that goes on")
	require.Less(t, beginWithin, overLife, "and the end of one that does not")
}
