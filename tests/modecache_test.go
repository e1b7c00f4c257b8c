package tests

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/redisconn"
)

const (
	cacheRounds = 2_000
	cacheSample = 36
	// With cacheTTL a fill that was read half of it ago is too old. It is far more than a slow Redis takes here.
	cacheTTL = time.Second
	// cacheStall holds an answer to a filler back until what a change wrote meanwhile has ended.
	cacheStall = 2600 * time.Millisecond
	// fillPause is the longest that a filler stands still before it writes, unless it is held.
	fillPause = 50 * time.Millisecond
)

// modeCommands stands between an API and Redis, and stops each filler before it writes. The cache is replaced there by a
// naive one: the code that is driven stays the same.
type modeCommands struct {
	del       bool // a change deletes the entry and does not write it
	overwrite bool // a fill writes whatever is there
	// held fills, by key, wait for the channel.
	held     sync.Map
	replaced *atomic.Int64 // commands
}

// stall stops a filler that has read and not yet written.
func (m *modeCommands) stall(ctx context.Context, fill redis.Cmder) {
	_ = clock.Sleep(ctx, time.Duration(rand.Int64N(int64(fillPause))))
	if changed, ok := m.held.Load(fill.Args()[1]); ok {
		select {
		case <-changed.(chan struct{}):
		case <-ctx.Done():
		}
	}
}

// DialHook implements redis.Hook.
func (m *modeCommands) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (m *modeCommands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return m.replace(ctx, cmd, func(c redis.Cmder) error { return next(ctx, c) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (m *modeCommands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for i := range cmds {
			if isFill(cmds[i]) {
				return m.replace(ctx, cmds[i], func(c redis.Cmder) error {
					sent := append([]redis.Cmder(nil), cmds...)
					sent[i] = c
					return next(ctx, sent)
				})
			}
		}
		return next(ctx, cmds)
	}
}

func (m *modeCommands) replace(ctx context.Context, cmd redis.Cmder, send func(redis.Cmder) error) error {
	switch {
	case isFill(cmd):
		m.stall(ctx, cmd)
		if m.overwrite {
			m.replaced.Add(1)
			args := cmd.Args()
			return send(redis.NewStatusCmd(ctx, args[:len(args)-1]...)) // without the NX at its end
		}
	case isPut(cmd) && m.del:
		m.replaced.Add(1)
		cmd.(*redis.Cmd).SetVal(int64(1))
		return send(redis.NewIntCmd(ctx, "del", cmd.Args()[3]))
	}
	return send(cmd)
}

func isFill(cmd redis.Cmder) bool {
	args := cmd.Args()
	key, _ := args[min(1, len(args)-1)].(string)
	return cmd.Name() == "set" && strings.HasPrefix(key, "mode:") && args[len(args)-1] == "nx"
}

func isPut(cmd redis.Cmder) bool {
	args := cmd.Args()
	if len(args) < 4 || cmd.Name() != "evalsha" && cmd.Name() != "eval" {
		return false
	}
	key, _ := args[3].(string)
	return strings.HasPrefix(key, "mode:")
}

// cacheRace is two APIs: one that fills, and one that changes and is not held up.
type cacheRace struct {
	*arena   // through which the modes are filled
	changes  *arena
	commands *modeCommands
	hold     bool // fillers, between their read and their write, until the change has answered
}

// newCacheRace is the published race, where fillers are held before they write. With stale they are held before they see
// what they read, for longer than entries live.
func newCacheRace(t *testing.T, m *modeCommands, stale bool, modeClock clock.Clock) *cacheRace {
	t.Helper()
	s := newStack(t)
	c := &cacheRace{arena: newArena(t, s), changes: newArena(t, s), commands: m, hold: !stale}
	cfg := nodeConfig{hook: m, modeClock: modeClock, patient: true}
	database := &slowProxy{t: t, max: mostDelay / 2}
	if stale {
		cfg.ttl = cacheTTL
		database.stallAnswer, database.stallOneIn = cacheStall, 8
	}
	rdb := &slowProxy{t: t, max: mostDelay}
	cfg.database, cfg.rdb = database.through(s.database), rdb.through(s.rdb)
	c.bases = []string{startNode(t, cfg)}
	cfg.database = (&slowProxy{t: t, max: mostDelay / 2}).through(s.database)
	cfg.hook = &modeCommands{del: m.del, overwrite: m.overwrite, replaced: m.replaced} // which holds nobody
	c.changes.bases = []string{startNode(t, cfg)}
	return c
}

// round has a user who is cached nowhere change while others read and fill the mode, and says whether the cache was seen
// to be looser than the database once the change had answered.
func (c *cacheRace) round(ctx context.Context, modes []string) (found tally, err error) {
	r, err := c.newRacer(ctx)
	if err != nil {
		return found, err
	}
	key := privacy.Key(redisconn.ShardsOf(c.direct), r.ID)
	// What is filled is read by an admission, or, for a token that is cached already, by a storing transaction.
	if rand.IntN(2) == 0 {
		if err := c.fill(ctx, r); err != nil {
			return found, err
		}
		c.direct.Del(ctx, key)
	}
	changed := make(chan struct{})
	if c.hold {
		c.commands.held.Store(key, changed)
	}
	var filling, changing errgroup.Group
	soon := func(g *errgroup.Group, from, to int, fn func() error) {
		delay := time.Duration(from+rand.IntN(to-from)) * time.Millisecond
		g.Go(func() error {
			_ = clock.Sleep(ctx, delay)
			return fn()
		})
	}
	soon(&filling, 0, 20, func() error {
		_, err := c.ask(ctx, http.MethodGet, "/v1/me", r.Token, nil, http.StatusOK)
		return err
	})
	soon(&filling, 0, 20, func() error { return c.upload(ctx, r, 1, true, true) })
	soon(&filling, 0, 400, func() error { return c.upload(ctx, r, 1, true, true) })
	for _, mode := range modes {
		soon(&changing, 50, 200, func() error { return c.changes.change(ctx, r, mode) })
	}
	err = changing.Wait()
	c.commands.held.Delete(key)
	close(changed)
	filled := make(chan error, 1)
	go func() { filled <- filling.Wait() }()
	return c.watch(ctx, r.ID, filled, err)
}

// watch compares until all fillers have ended. It finds what it expects when the user is cached at least once meanwhile:
// otherwise there was nothing to compare.
func (c *cacheRace) watch(ctx context.Context, id uuid.UUID, filled <-chan error, err error) (found tally, _ error) {
	found.Expected = 1
	for over := false; !over; {
		select {
		case errFill := <-filled:
			err, over = errFirst(err, errFill), true
		case <-time.After(5 * time.Millisecond):
		}
		cached, looser, errLook := c.looser(ctx, id)
		err = errFirst(err, errLook)
		if cached {
			found.Found = 1
		}
		if looser {
			found.Leaked = 1
		}
	}
	return found, err
}

func errFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

var keepsLess = map[activity.Mode]int{activity.ModeFull: 0, activity.ModeSummary: 1, activity.ModeOff: 2}

// looser says whether the user's mode is cached, and whether the cache would have more kept than the database. Nobody
// changes the user meanwhile.
func (a *arena) looser(ctx context.Context, id uuid.UUID) (isCached, isLooser bool, err error) {
	cached, ok, err := privacy.NewCache(a.direct, clock.System{}, 0).Get(ctx, id)
	if err != nil || !ok {
		return false, false, err
	}
	stored, err := collect[struct{ Mode activity.Mode }](ctx, a.pool, `SELECT privacy FROM users WHERE id = $1`, id)
	if err != nil {
		return true, false, err
	}
	return true, keepsLess[cached.Mode] < keepsLess[stored[0].Mode], nil
}

func (c *cacheRace) rounds(s *suite, planned int, modes func() []string) {
	var next atomic.Int64
	var players sync.WaitGroup
	for range racers() {
		players.Go(func() {
			for next.Add(1) <= int64(planned) && !c.t.Failed() && !s.seen() {
				found, err := c.round(c.t.Context(), modes())
				if err != nil {
					c.t.Errorf("a round broke off: %v", err)
				}
				s.add(found)
			}
		})
	}
	players.Wait()
}

func oneStricter() []string { return []string{"summary", "off"}[rand.IntN(2):][:1] }

// twoModes are changes that arrive together, from any mode to any other.
func twoModes() []string {
	modes := []string{"full", "summary", "off"}
	rand.Shuffle(len(modes), func(i, j int) { modes[i], modes[j] = modes[j], modes[i] })
	return modes[:2]
}

// A filler that read the mode before a change and writes it after the change does not put it back.
func TestTrialsCachedModeIsNeverLooser(t *testing.T) {
	alongside(t)
	for _, tt := range []struct {
		name  string
		modes func() []string
		stale bool
	}{
		{"a change, in the published race", oneStricter, false},
		{"two changes", twoModes, false},
		{"a change, filled past the time to live", oneStricter, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alongside(t)
			planned := scaled(cacheRounds, cacheSample)
			if tt.stale {
				planned = max(planned/8, 2*racers())
			}
			s := newSuite(t, "cached mode after "+tt.name, planned)
			newCacheRace(t, &modeCommands{replaced: &atomic.Int64{}}, tt.stale, nil).rounds(s, planned, tt.modes)
		})
	}
}

// What makes the cache so is taken out, each alone.
func TestTrialsCachedModeIsNeverLooserWithoutGuards(t *testing.T) {
	alongside(t)
	for _, tt := range []struct {
		guard string
		naive *modeCommands
		clock clock.Clock // one that stands still takes every fill for fresh
	}{
		{guard: "writing on change (DEL)", naive: &modeCommands{del: true}},
		{guard: "filling only if empty (SET)", naive: &modeCommands{overwrite: true}},
		{guard: "the age of a fill", naive: &modeCommands{}, clock: clock.NewManual(clock.System{}.Now())},
	} {
		t.Run(tt.guard, func(t *testing.T) {
			alongside(t)
			tt.naive.replaced = &atomic.Int64{}
			s := newSuiteWithout(t, tt.guard, "cached mode after a change", roundsWithout)
			newCacheRace(t, tt.naive, tt.clock != nil, tt.clock).rounds(s, roundsWithout, oneStricter)
			require.Equal(t, tt.clock == nil, tt.naive.replaced.Load() > 0, "the naive cache was in use")
		})
	}
}
