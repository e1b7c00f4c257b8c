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
)

const (
	cacheRounds = 4_000
	cacheSample = 60
	// A fill that was read half of this time ago is too old. It is far more than a slow Redis takes here.
	cacheTTL = 1200 * time.Millisecond
	// cacheStall holds an answer of Postgres back until what a change wrote meanwhile has ended.
	cacheStall = 1500 * time.Millisecond
	// fillPause is the longest that a filler stands still between its read and its write.
	fillPause = 150 * time.Millisecond
	// fillWithin is about how long a change takes here.
	fillWithin = 500 * time.Millisecond
)

// modeCommands stands between an API and Redis, and stops each filler before it writes. The cache is replaced there by a
// naive one: the code that is driven stays the same.
type modeCommands struct {
	del       bool // a change deletes the entry and does not write it
	overwrite bool // a fill writes whatever is there
	replaced  atomic.Int64
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
		_ = clock.Sleep(ctx, time.Duration(rand.Int64N(int64(fillPause))))
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

func cacheArena(t *testing.T, m *modeCommands, modeClock clock.Clock) *arena {
	t.Helper()
	a := newArena(t, newStack(t))
	for range 2 {
		database := &slowProxy{t: t, max: mostDelay / 2, stallAnswer: cacheStall, stallOneIn: 60}
		rdb := &slowProxy{t: t, max: mostDelay}
		a.bases = append(a.bases, startNode(t, nodeConfig{
			database: database.through(a.database), rdb: rdb.through(a.rdb), ttl: cacheTTL, hook: m, modeClock: modeClock, patient: true,
		}))
	}
	return a
}

// cacheRound has a user who is cached nowhere change while others read and fill the mode, and says how often the cache
// was seen to be looser than the database after the change had answered.
func (a *arena) cacheRound(ctx context.Context, modes []string) (found tally, err error) {
	r, err := a.newRacer(ctx)
	if err != nil {
		return found, err
	}
	var filling, changing errgroup.Group
	soon := func(g *errgroup.Group, within time.Duration, fn func() error) {
		delay := time.Duration(rand.Int64N(int64(within)))
		g.Go(func() error {
			_ = clock.Sleep(ctx, delay)
			return fn()
		})
	}
	// What is filled is read by an admission, or by a storing transaction for a user whose token is cached already.
	soon(&filling, fillWithin, func() error {
		_, err := a.ask(ctx, http.MethodGet, "/v1/me", r.Token, nil, http.StatusOK)
		return err
	})
	for range 4 {
		soon(&filling, fillWithin, func() error { return a.upload(ctx, r, 1, true, true) })
	}
	for _, mode := range modes {
		soon(&changing, fillWithin/5, func() error { return a.change(ctx, r, mode) })
	}
	if err := changing.Wait(); err != nil {
		return found, err
	}
	filled := make(chan error, 1)
	go func() { filled <- filling.Wait() }()
	for {
		if looser, err := a.looser(ctx, r.ID); err != nil || looser {
			found.Leaked = 1
			<-filled
			return found, err
		}
		select {
		case err := <-filled:
			looser, errLast := a.looser(ctx, r.ID)
			if looser {
				found.Leaked = 1
			}
			return found, errFirst(err, errLast)
		case <-time.After(5 * time.Millisecond):
		}
	}
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

// looser says whether the cache would have more kept than the database. Nobody changes the user meanwhile.
func (a *arena) looser(ctx context.Context, id uuid.UUID) (bool, error) {
	cached, ok, err := privacy.NewCache(a.direct, clock.System{}, 0).Get(ctx, id)
	if err != nil || !ok {
		return false, err
	}
	stored, err := collect[struct{ Mode activity.Mode }](ctx, a.pool, `SELECT privacy FROM users WHERE id = $1`, id)
	if err != nil {
		return false, err
	}
	return keepsLess[cached.Mode] < keepsLess[stored[0].Mode], nil
}

func (a *arena) cacheRounds(s *suite, planned int, modes func() []string) {
	var next atomic.Int64
	var players sync.WaitGroup
	for range racers {
		players.Go(func() {
			for next.Add(1) <= int64(planned) && !a.t.Failed() && !s.seen() {
				found, err := a.cacheRound(a.t.Context(), modes())
				if err != nil {
					a.t.Errorf("a round broke off: %v", err)
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
	for name, modes := range map[string]func() []string{"a change": oneStricter, "two changes": twoModes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned := scaled(cacheRounds/2, cacheSample/2)
			s := newSuite(t, "cached mode after "+name, planned)
			cacheArena(t, &modeCommands{}, nil).cacheRounds(s, planned, modes)
		})
	}
}

// What makes the cache so is taken out, each alone.
func TestTrialsCachedModeIsNeverLooserWithoutGuards(t *testing.T) {
	alongside(t)
	tests := map[string]struct {
		commands modeCommands
		clock    clock.Clock
	}{
		"writing on change, by DEL": {commands: modeCommands{del: true}},
		"filling if empty, by SET":  {commands: modeCommands{overwrite: true}},
		"the age of a fill":         {clock: clock.NewManual(clock.System{}.Now())},
	}
	for guard := range tests {
		t.Run(guard, func(t *testing.T) {
			alongside(t)
			planned := scaled(cacheRounds/10, 20*cacheSample)
			s := newSuiteWithout(t, guard, "cached mode after a change", planned)
			commands, still := &modeCommands{del: tests[guard].commands.del, overwrite: tests[guard].commands.overwrite}, tests[guard].clock
			cacheArena(t, commands, still).cacheRounds(s, planned, oneStricter)
			require.Equal(t, commands.del || commands.overwrite, commands.replaced.Load() > 0)
		})
	}
}
