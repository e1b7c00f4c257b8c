package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/recapmail"
	"github.com/commma/commma/internal/servicetoken"
	"github.com/commma/commma/internal/testenv"
)

func TestRecapOfAWeek(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	for query, monday := range map[string]string{"": "2026-06-15", "?week=": "2026-06-15", "?week=2026-W24": "2026-06-08", "?week=2026-06-14": "2026-06-08"} {
		got := b.call(t, http.MethodGet, "/v1/recap"+query, "", signedIn())
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, monday, got.json(t)["week_start"], query)
	}
	got := b.call(t, http.MethodGet, "/v1/recap?week=last", "", signedIn())
	got.requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
}

func job() option { return withHeader("Authorization", "Bearer "+jobToken) }

// A stream that fails has no last line; who goes on from its last cursor gets the rest.
func TestAStreamThatIsCutCanBeTold(t *testing.T) {
	t.Parallel()
	f := &fake{walked: []uuid.UUID{{1}, {2}, {3}}, walk: errors.New("gone")}
	b := setup(t, f)
	web := httptest.NewServer(b.Server)
	t.Cleanup(web.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/v1/recaps?week=2026-W24", nil)
	require.NoError(t, err)
	job()(req)
	res, err := web.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "application/x-ndjson", res.Header.Get("Content-Type"))
	body, err := io.ReadAll(res.Body)
	require.Error(t, err, "the connection is cut")
	require.NotContains(t, string(body), "secret@")
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	require.Len(t, lines, 3)
	require.NotContains(t, string(body), `"end"`)
	var second api.RecapLine
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &second))
	b = setup(t, &fake{walked: f.walked})
	got := b.call(t, http.MethodGet, "/v1/recaps?week=2026-W24&cursor="+*second.Cursor, "", job())
	require.Equal(t, lines[2]+"\n"+`{"count":1,"end":true}`+"\n", got.body)
	got = b.call(t, http.MethodGet, "/v1/recaps?week=2026-W23&cursor="+*second.Cursor, "", job())
	got.requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
}

// A stream may take longer than other requests: neither the deadline of requests nor the server's timeouts end it.
func TestAStreamHasItsOwnTime(t *testing.T) {
	t.Parallel()
	var left []time.Duration
	f := &fake{}
	f.admitJob = func(deadline time.Time) { left = append(left, time.Until(deadline)) }
	b := setupWith(t, f, Config{RequestTimeout: time.Second})
	require.Equal(t, http.StatusOK, b.call(t, http.MethodGet, "/v1/recaps", "", job()).status)
	require.Len(t, left, 1)
	require.Greater(t, left[0], 10*time.Minute)
}

// sparse finds nobody active in so many looks, of nine seconds each, and hangs in one more if told to.
type sparse struct {
	Recaps
	looks int
	hangs bool
}

func (s sparse) WalkShown(ctx context.Context, _ recap.Week, _ uuid.UUID, _ func(*recap.Addressed) error, paged func() error) error {
	for range s.looks {
		select {
		case <-time.After(9 * time.Second):
		case <-ctx.Done():
		}
		if err := paged(); err != nil {
			return err
		}
	}
	if s.hangs {
		<-ctx.Done()
	}
	return ctx.Err()
}

// Whoever looks through many users for a line does not hang; whoever hangs after that does.
func TestAStreamWithoutLinesGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := func(s sparse) (string, error) {
			h := &handlers{Deps: Deps{Recaps: s}, cfg: Config{RequestTimeout: 10 * time.Second}}
			out := httptest.NewRecorder()
			c := echo.New().NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/recaps", nil), out)
			err := h.streamRecaps(c, recap.Week{}, uuid.Nil)
			return out.Body.String(), err
		}
		body, err := stream(sparse{looks: 20})
		require.NoError(t, err)
		require.JSONEq(t, `{"count":0,"end":true}`, body)
		began := clock.System{}.Now() // that of the bubble
		_, err = stream(sparse{looks: 2, hangs: true})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 28*time.Second, clock.System{}.Now().Sub(began))
	})
}

func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	f := &fake{}
	b := setup(t, f)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		got := b.call(t, method, "/v1/recap/unsubscribe?token=x", "List-Unsubscribe=One-Click", withHeader("Content-Type", "application/x-www-form-urlencoded"))
		require.Equal(t, http.StatusOK, got.status)
		require.Contains(t, got.header.Get("Content-Type"), "text/html")
		require.Equal(t, "no-referrer", got.header.Get("Referrer-Policy"))
		require.Equal(t, method == http.MethodGet, strings.Contains(got.body, "<form"))
	}
	f.link = recapmail.ErrBadLink
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		b.call(t, method, "/v1/recap/unsubscribe", "").requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
	}
}

// Address and choice, from the request to the answer, and the link that takes the choice back.
func TestMailSettings(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	r := setupReal(t, pool, testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	ada, grace := r.mustUser(t, "ada"), r.mustUser(t, "grace")
	patch := func(body string) reply { return r.call(t, http.MethodPatch, "/v1/me", body, bearer(ada)) }
	requireMail := func(email any, choice bool) {
		t.Helper()
		me := r.call(t, http.MethodGet, "/v1/me", "", bearer(ada)).json(t)
		require.Equal(t, email, me["email"])
		require.Equal(t, choice, me["recap_mail"])
	}
	requireMail(nil, false)
	for _, bad := range []string{
		`{"recap_mail":true}`, `{"email":"ada"}`, `{"email":"ada@localhost"}`, `{"email":"Ada <ada@example.org>"}`, `{"email":""}`,
		`{"email":"a b@example.org"}`, `{"email":"a@example.org\r\nBcc: b@example.org"}`, `{"email":1}`, `{"recap_mail":null}`,
		`{"recap_mail":"yes"}`, `{"email":null,"recap_mail":true}`, `{"email":"` + strings.Repeat("a", 65) + `@example.org"}`,
		`{"email":"a@` + strings.Repeat("a.", 126) + `org"}`, `{"email":"ä@example.org"}`, `{"recap_mail":true,"privacy":"summary"}`,
	} {
		patch(bad).requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
	}
	requireMail(nil, false)
	require.Equal(t, "full", r.call(t, http.MethodGet, "/v1/me", "", bearer(ada)).json(t)["privacy"], "all or nothing")

	got := patch(`{"email":"ada+commma@example.org","recap_mail":true,"timezone":"Asia/Tokyo","privacy":"summary"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	requireMail("ada+commma@example.org", true)
	for _, path := range []string{"/v1/users/ada", "/v1/leaderboard"} {
		require.NotContains(t, r.call(t, http.MethodGet, path, "", bearer(grace)).body, "example.org")
	}
	link, err := r.Links.URL(t.Context(), "", ada.ID)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.call(t, http.MethodGet, link, "").status)
	requireMail("ada+commma@example.org", true)
	require.Equal(t, http.StatusOK, r.call(t, http.MethodPost, link, "List-Unsubscribe=One-Click").status)
	requireMail("ada+commma@example.org", false)
	patch(`{"recap_mail":true}`)
	requireMail("ada+commma@example.org", true)
	patch(`{"email":null}`)
	requireMail(nil, false)
	require.NotContains(t, r.logs.String(), "example.org")
}

// Whose token does what: a job's reads all recaps and nothing of a user's, and a user's none.
func TestServiceTokens(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	limits := admission.DefaultConfig()
	limits.FailedAuthPerHour = 4
	r := setupReal(t, pool, testenv.RedisURL(t), limits, Config{})
	ada := r.mustUser(t, "ada")
	token, err := servicetoken.Create(t.Context(), pool, "job", servicetoken.Scopes)
	require.NoError(t, err)
	call := func(path, token string) reply {
		return r.call(t, http.MethodGet, path, "", withHeader("Authorization", "Bearer "+token))
	}
	require.JSONEq(t, `{"end":true,"count":0}`, call("/v1/recaps", token).body)
	call("/v1/me", token).requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
	call("/v1/recaps", ada.Token).requireError(t, http.StatusForbidden, api.ErrorCodeForbidden)
	call("/v1/recaps", admission.NewToken(uuid.New())).requireError(t, http.StatusForbidden, api.ErrorCodeForbidden)
	_, err = pool.Exec(t.Context(), `UPDATE service_tokens SET scopes = '{}'`)
	require.NoError(t, err)
	call("/v1/recaps", token).requireError(t, http.StatusForbidden, api.ErrorCodeForbidden)
	require.NoError(t, servicetoken.Revoke(t.Context(), pool, "job"))
	call("/v1/recaps", token).requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
	call("/v1/recaps", account.Created{}.Token).requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
	call("/v1/recaps", token).requireError(t, http.StatusTooManyRequests, api.ErrorCodeRateLimited)
}
