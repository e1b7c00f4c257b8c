package servicetoken_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/redact"
	"github.com/commma/commma/internal/servicetoken"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestTokens(t *testing.T) {
	t.Parallel()
	pool, ctx := testenv.Postgres(t), t.Context()
	recaps := []servicetoken.Scope{servicetoken.ScopeRecaps}
	token, err := servicetoken.Create(ctx, pool, "weekly", recaps)
	require.NoError(t, err)
	require.True(t, servicetoken.Is(token))
	require.NotContains(t, redact.Secrets("bad token "+token), token[8:])
	require.NoError(t, servicetoken.Check(ctx, pool, token, servicetoken.ScopeRecaps))
	require.ErrorIs(t, servicetoken.Check(ctx, pool, token, "other"), servicetoken.ErrScope)
	for _, bad := range []string{"", "cmms_", token + "x", token[:len(token)-1] + "!", "cmm_" + strings.TrimPrefix(token, servicetoken.Prefix)} {
		require.ErrorIs(t, servicetoken.Check(ctx, pool, bad, servicetoken.ScopeRecaps), servicetoken.ErrUnknown)
	}

	_, err = servicetoken.Create(ctx, pool, "weekly", recaps)
	require.ErrorIs(t, err, servicetoken.ErrNameTaken)
	_, err = servicetoken.Create(ctx, pool, "two words", recaps)
	require.ErrorIs(t, err, servicetoken.ErrBadName)
	for _, scopes := range [][]servicetoken.Scope{nil, {"all"}} {
		_, err = servicetoken.Create(ctx, pool, "other", scopes)
		require.ErrorIs(t, err, servicetoken.ErrBadScope)
	}

	require.ErrorIs(t, servicetoken.Revoke(ctx, pool, "nobody"), servicetoken.ErrUnknown)
	for range 2 {
		require.NoError(t, servicetoken.Revoke(ctx, pool, "weekly"))
	}
	require.ErrorIs(t, servicetoken.Check(ctx, pool, token, servicetoken.ScopeRecaps), servicetoken.ErrUnknown)
	list, err := servicetoken.List(ctx, pool)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NotNil(t, list[0].RevokedAt)
	var stored string
	require.NoError(t, pool.QueryRow(ctx, `SELECT service_tokens::text FROM service_tokens`).Scan(&stored))
	require.NotContains(t, stored, token[5:])
}
