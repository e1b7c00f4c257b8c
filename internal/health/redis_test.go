package health

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestSettingsWarnings(t *testing.T) {
	t.Parallel()
	require.Empty(t, settingsWarnings("# Memory\r\nmaxmemory_policy:noeviction\r\n# Persistence\r\naof_enabled:1\r\n"))
	require.Equal(t,
		[]string{"redis: maxmemory-policy is allkeys-lru, want noeviction", "redis: appendonly is off, want yes"},
		settingsWarnings("maxmemory_policy:allkeys-lru\r\naof_enabled:0\r\n"))
	require.Empty(t, settingsWarnings(""), "what a server does not tell is no warning")
}

func TestCheckTellsTheServersSettings(t *testing.T) {
	t.Parallel()
	rdb := testenv.Redis(t)
	_, err := NewRedis(rdb).Check(t.Context())
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	_, err = NewRedis(rdb).Check(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
