package admission

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/privacy"
)

func TestAdmitDecides(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *testing.T, cfg *Config, _ *Deps) { cfg.FailedAuthPerHour = 0 })
	u := b.mustUser(t, activity.ModeSummary)
	tests := []struct {
		name  string
		token string
		want  Code
		asked int64 // of Postgres, the first time; then again
		again int64
	}{
		{"good", u.token, "", 1, 0},
		{"another secret", u.otherSecret(), CodeUnauthorized, 1, 1},
		{"no such user", NewToken(uuid.New()), CodeForbidden, 1, 1},
		{"none", "", CodeUnauthorized, 0, 0},
		{"broken", u.token[:len(u.token)-1], CodeUnauthorized, 0, 0},
	}
	for _, tt := range tests {
		for _, asked := range []int64{tt.asked, tt.again} {
			before := b.db.asked.Load()
			g, err := b.ask(t, tt.token, ScopeIngest)
			require.Equal(t, asked, b.db.asked.Load()-before, tt.name)
			if tt.want != "" {
				refusal := mustRefusal(t, err, tt.want)
				require.Zero(t, g, tt.name)
				require.Zero(t, refusal.Limit, "%s: headers of a limit belong to who is authenticated", tt.name)
				continue
			}
			require.NoError(t, err, tt.name)
			require.Equal(t, u.id, g.UserID)
			require.Equal(t, activity.ModeSummary, g.Mode)
		}
	}
	require.Equal(t, []string{"ingest  asked", "ingest  cached", "ingest UNAUTHORIZED asked"}, b.seen.admissions[:3])
}

// What is cached can let in, never turn away.
func TestCachedMissDecidesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	u := b.mustUser(t, activity.ModeFull)
	for _, cached := range []string{"", "x", string(make([]byte, 32)), strings.Repeat("y", 64)} {
		require.NoError(t, b.rdb.Set(t.Context(), authKey(b.shards, u.id), cached, 0).Err())
		b.mustAdmit(t, u)
		before := b.db.asked.Load()
		b.mustAdmit(t, u)
		require.Equal(t, before, b.db.asked.Load(), "what Postgres confirmed replaces what was cached")
	}
	ttl := b.rdb.TTL(t.Context(), authKey(b.shards, u.id)).Val()
	require.Greater(t, ttl, time.Minute, "clients come once a minute")
	require.NoError(t, b.Forget(t.Context(), u.id))
	before := b.db.asked.Load()
	b.mustAdmit(t, u)
	require.Equal(t, before+1, b.db.asked.Load())
}

func TestWhichModeIsKnown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		cached   string
		authToo  bool // whether the token is cached, so that Postgres is not asked
		want     activity.Mode
		thenHeld string // in the cache afterwards
	}{
		{"neither", "", false, activity.ModeFull, "0:full"},
		{"newer in the cache", "1:summary", false, activity.ModeSummary, "1:summary"},
		{"unreadable in the cache", "rubbish", false, activity.ModeFull, "rubbish"},
		{"only the token", "", true, "", ""},
		{"both", "7:off", true, activity.ModeOff, "7:off"},
		{"token, and an unreadable mode", "rubbish", true, "", "rubbish"},
	}
	b := setup(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := b.mustUser(t, activity.ModeFull)
			if tt.authToo {
				h := HashToken(u.token)
				require.NoError(t, b.rdb.Set(t.Context(), authKey(b.shards, u.id), h[:], 0).Err())
			}
			if tt.cached != "" {
				require.NoError(t, b.rdb.Set(t.Context(), privacy.Key(b.shards, u.id), tt.cached, 0).Err())
			}
			require.Equal(t, tt.want, b.mustAdmit(t, u).Mode)
			require.Equal(t, tt.thenHeld, b.rdb.Get(t.Context(), privacy.Key(b.shards, u.id)).Val())
		})
	}
}

func TestFillModeOnlyWhereThereIsNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	u := b.mustUser(t, activity.ModeFull)
	b.FillMode(t.Context(), u.id, privacy.Entry{Version: 3, Mode: activity.ModeSummary}, b.clock.Now())
	require.Equal(t, "3:summary", b.rdb.Get(t.Context(), privacy.Key(b.shards, u.id)).Val())
	b.FillMode(t.Context(), u.id, privacy.Entry{Version: 4, Mode: activity.ModeFull}, b.clock.Now())
	require.Equal(t, "3:summary", b.rdb.Get(t.Context(), privacy.Key(b.shards, u.id)).Val())
	require.Positive(t, b.rdb.TTL(t.Context(), privacy.Key(b.shards, u.id)).Val())
}

// An entry older than what Postgres says is not believed, though it is not replaced either.
func TestOlderCachedModeLosesToPostgres(t *testing.T) {
	t.Parallel()
	b := setup(t)
	u := b.mustUser(t, activity.ModeSummary)
	_, err := b.db.Exec(t.Context(), `UPDATE users SET version = 5 WHERE id = $1`, u.id)
	require.NoError(t, err)
	require.NoError(t, b.rdb.Set(t.Context(), privacy.Key(b.shards, u.id), "4:full", 0).Err())
	require.Equal(t, activity.ModeSummary, b.mustAdmit(t, u).Mode)
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *testing.T, cfg *Config, _ *Deps) { cfg.PerHour = map[Scope]int{ScopeIngest: 3, ScopeRead: 1} })
	u, other := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	for remaining := 2; remaining >= 0; remaining-- {
		l := b.mustAdmit(t, u).Limit
		require.Equal(t, 3, l.Limit)
		require.Equal(t, remaining, l.Remaining)
		require.False(t, l.Limited)
		require.Zero(t, l.RetryAfter)
		require.WithinDuration(t, b.clock.Now().Add(time.Duration(3-remaining)*20*time.Minute), l.ResetAt, time.Minute)
	}
	for range 2 {
		_, err := b.ask(t, u.token, ScopeIngest)
		l := mustRefusal(t, err, CodeRateLimited).Limit
		require.True(t, l.Limited)
		require.Zero(t, l.Remaining)
		require.Zero(t, l.RetryAfter%time.Second)
		require.InDelta(t, 20*60, l.RetryAfter.Seconds(), 60)
	}
	b.mustAdmit(t, other)
	_, err := b.ask(t, u.token, ScopeRead)
	require.NoError(t, err, "scopes are limited by themselves")
	_, err = b.ask(t, u.token, ScopeWrite)
	require.ErrorContains(t, err, "scope", "a scope without a limit is a mistake of ours")
}

func TestNoLimit(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *testing.T, cfg *Config, _ *Deps) {
		cfg.PerHour = map[Scope]int{ScopeIngest: 0}
		cfg.FailedAuthPerHour = 0
	})
	u := b.mustUser(t, activity.ModeFull)
	for range 50 {
		require.Zero(t, b.mustAdmit(t, u).Limit)
		_, err := b.ask(t, "", ScopeIngest)
		requireCode(t, err, CodeUnauthorized)
		_, err = b.AdmitAnonymous(t.Context(), ScopeIngest, home)
		require.NoError(t, err)
	}
}

// Somebody who knows a user's id, but not the token, cannot use up the user's limit.
func TestLimitIsNotOthersToUseUp(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *testing.T, cfg *Config, _ *Deps) {
		cfg.PerHour = map[Scope]int{ScopeIngest: 1}
		cfg.FailedAuthPerHour = 0
	})
	u := b.mustUser(t, activity.ModeFull)
	guess := u.otherSecret()
	for range 5 {
		_, err := b.ask(t, guess, ScopeIngest)
		requireCode(t, err, CodeUnauthorized)
	}
	b.mustAdmit(t, u)
}

func TestFailedAuthenticationsAreLimitedPerAddress(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *testing.T, cfg *Config, _ *Deps) { cfg.FailedAuthPerHour = 3 })
	u := b.mustUser(t, activity.ModeFull)
	b.mustAdmit(t, u)
	for _, token := range []string{"", u.otherSecret(), NewToken(uuid.New())} {
		_, err := b.ask(t, token, ScopeIngest)
		require.Error(t, err)
		require.NotEqual(t, CodeRateLimited, codeOf(err))
	}
	for _, token := range []string{"", u.otherSecret(), NewToken(uuid.New())} {
		_, err := b.ask(t, token, ScopeIngest)
		l := mustRefusal(t, err, CodeRateLimited).Limit
		require.True(t, l.Limited)
		require.InDelta(t, 20*60, l.RetryAfter.Seconds(), 60)
	}
	b.mustAdmit(t, u) // from the same address
	b.mustAdmit(t, u)
	_, err := b.Admit(t.Context(), Request{Scope: ScopeIngest, Addr: home.Next()})
	requireCode(t, err, CodeUnauthorized)
}

// Guessing with well-formed tokens must not be a way to keep Postgres busy.
func TestLimitedAddressCostsPostgresNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *testing.T, cfg *Config, _ *Deps) { cfg.FailedAuthPerHour = 1 })
	cached, fresh := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	b.mustAdmit(t, cached)
	_, err := b.ask(t, NewToken(uuid.New()), ScopeIngest)
	requireCode(t, err, CodeForbidden)
	_, err = b.ask(t, NewToken(uuid.New()), ScopeIngest)
	told := mustRefusal(t, err, CodeRateLimited).Limit

	b.clock.Advance(time.Minute)
	asked := b.db.asked.Load()
	for _, token := range []string{NewToken(uuid.New()), cached.otherSecret(), fresh.token} {
		_, err = b.ask(t, token, ScopeIngest)
		again := mustRefusal(t, err, CodeRateLimited).Limit
		require.Equal(t, told.RetryAfter-time.Minute, again.RetryAfter)
		require.Equal(t, told.ResetAt, again.ResetAt)
	}
	b.mustAdmit(t, cached)
	require.Equal(t, asked, b.db.asked.Load())

	_, err = b.Admit(t.Context(), Request{Token: fresh.otherSecret(), Scope: ScopeIngest, Addr: home.Next()})
	requireCode(t, err, CodeUnauthorized)
	b.clock.Advance(told.RetryAfter - time.Minute)
	b.mustAdmit(t, fresh) // it was told to come back by now
}

func TestAnonymousRequestsAreLimitedPerAddress(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *testing.T, cfg *Config, _ *Deps) { cfg.PerHour = map[Scope]int{ScopeRead: 1} })
	same := [][2]string{
		{"192.0.2.1", "::ffff:192.0.2.1"},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9"},
		{"fe80::1%eth0", "fe80::1%eth1"},
	}
	for _, pair := range same {
		g, err := b.AdmitAnonymous(t.Context(), ScopeRead, netip.MustParseAddr(pair[0]))
		require.NoError(t, err)
		require.Equal(t, 1, g.Limit.Limit)
		require.Equal(t, uuid.Nil, g.UserID)
		_, err = b.AdmitAnonymous(t.Context(), ScopeRead, netip.MustParseAddr(pair[1]))
		requireCode(t, err, CodeRateLimited)
	}
	for _, other := range []string{"192.0.2.2", "2001:db8:1:3::1"} {
		_, err := b.AdmitAnonymous(t.Context(), ScopeRead, netip.MustParseAddr(other))
		require.NoError(t, err)
	}
	_, err := b.AdmitAnonymous(t.Context(), ScopeRead, netip.Addr{})
	require.NoError(t, err)
	_, err = b.AdmitAnonymous(t.Context(), ScopeRead, netip.Addr{})
	requireCode(t, err, CodeRateLimited)
}

func TestTokensAreNeverTold(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *testing.T, cfg *Config, d *Deps) {
		cfg.FailedAuthPerHour = 2
		cfg.PerHour = map[Scope]int{ScopeIngest: 1}
	})
	u := b.mustUser(t, activity.ModeFull)
	var told strings.Builder
	tokens := []string{u.token, u.otherSecret(), NewToken(uuid.New()), "cmm_" + strings.Repeat("s3cr3t", 8)}
	for _, token := range tokens {
		for range 3 {
			if _, err := b.ask(t, token, ScopeIngest); err != nil {
				told.WriteString(err.Error())
			}
		}
	}
	for iter := b.rdb.Scan(t.Context(), 0, "*", 100).Iterator(); iter.Next(t.Context()); {
		told.WriteString(iter.Val())
	}
	told.WriteString(b.log.String())
	require.Contains(t, told.String(), u.id.String(), "the search must be known to see the keys")
	for _, token := range tokens {
		require.NotContains(t, told.String(), token[len(token)-20:])
	}
}

func TestNewRefusesAClientWithoutDeadlines(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.deps
	c := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = c.Close() })
	d.Redis = c
	_, err := New(b.config, d)
	require.ErrorContains(t, err, "ContextTimeoutEnabled")
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, DefaultConfig().Validate())
	for name, spoil := range map[string]func(*Config){
		"negative limit":    func(c *Config) { c.PerHour = map[Scope]int{ScopeRead: -1} },
		"negative failures": func(c *Config) { c.FailedAuthPerHour = -1 },
		"no Redis timeout":  func(c *Config) { c.RedisTimeout = 0 },
		"no time to live":   func(c *Config) { c.AuthTTL = 0 },
		"no local keys":     func(c *Config) { c.LocalKeys = 0 },
	} {
		c := DefaultConfig()
		spoil(&c)
		require.Error(t, c.Validate(), name)
	}
}
