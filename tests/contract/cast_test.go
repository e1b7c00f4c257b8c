package contract

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/app/web"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/httpapi"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/servicetoken"
	"github.com/commma/commma/internal/testenv"
)

// stands are the values that stand for something in the examples, and what makes it. A value is replaced wherever it is the
// whole of a parameter or of a string in a body.
var stands = map[string]func(*testing.T, *cast) string{
	"ada":         func(_ *testing.T, c *cast) string { return c.ada.Handle },
	"grace":       func(_ *testing.T, c *cast) string { return c.grace.Handle },
	"demo":        func(_ *testing.T, c *cast) string { return c.demo.Handle },
	"profile:ada": func(_ *testing.T, c *cast) string { return "profile:" + c.ada.Handle },
	// A session of ada's.
	"8f14e45f-ceea-467f-a9b1-0d3a5f0f8c11": func(_ *testing.T, c *cast) string { return c.session },
	// What grace has written about it.
	"0b9c4a6e-2f4e-4a37-9d5b-0d2c8a1e7f55": func(t *testing.T, c *cast) string { return c.comment(t) },
	// A group of ada's.
	"5b1d2c9e-0f5a-4c9e-8f43-5e5f64b1b3a2": func(t *testing.T, c *cast) string { return c.group(t) },
	// What is in the link of a mail to demo.
	"Pw5qPXsLS32NQ15fZLGzotq3xJ0Yw1x1rQb2o5nY0dE": func(t *testing.T, c *cast) string { return c.link(t) },
}

// callers are whose token an operation is asked for with, by its operationId; all others are with demo's.
var callers = map[string]func(*testing.T, *cast) string{
	"deleteSession": func(_ *testing.T, c *cast) string { return c.ada.Token },
	"deleteComment": func(_ *testing.T, c *cast) string { return c.grace.Token },

	"renameGroup": owner, "deleteGroup": owner, "inviteToGroup": owner, "withdrawInvitation": owner, "removeMember": owner,
	"acceptInvitation": invited, "declineInvitation": invited,

	"listRecaps": func(t *testing.T, c *cast) string { return c.job(t) },
}

func owner(_ *testing.T, c *cast) string   { return c.ada.Token }
func invited(_ *testing.T, c *cast) string { return c.grace.Token }

// cast are the people of one example. demo, who asks, has done nothing; ada has coded.
type cast struct {
	*stage
	ada, grace, demo account.Created
	session          string
}

// stage is the server that all examples are sent to.
type stage struct {
	*app.App
	url   string
	casts atomic.Int64
}

// today is the day of the examples, which then are of a time that is accepted.
var today = time.Date(2026, 6, 17, 9, 30, 0, 0, time.UTC)

func TestMain(m *testing.M) { testenv.Main(m) }

func newStage(t *testing.T) *stage {
	t.Helper()
	rdb, err := redisconn.New(testenv.RedisURL(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	o := app.Options{Admission: admission.DefaultConfig()}
	for scope := range o.Admission.PerHour {
		o.Admission.PerHour[scope] = 1_000_000
	}
	now := clock.NewManual(today)
	o.PublishClock = now
	// What these requests wait for may be slow where all tests run at once.
	o.Admission.RedisTimeout, o.Views.Timeout = time.Minute, time.Minute
	o.Account = account.Config{Timeout: time.Minute, PublishTimeout: time.Minute, CacheTimeout: time.Minute}
	a, err := app.New(testenv.Postgres(t), rdb, now, testenv.Logger(t), o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Events.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	server, err := httpapi.New(web.Deps(a, prometheus.NewRegistry()), httpapi.Config{RequestTimeout: 3 * time.Minute, IngestTimeout: time.Minute})
	require.NoError(t, err)
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	return &stage{App: a, url: listening.URL}
}

// newCast makes people whom no other example knows.
func (s *stage) newCast(t *testing.T) *cast {
	t.Helper()
	c, n := &cast{stage: s}, s.casts.Add(1)
	for handle, user := range map[string]*account.Created{"ada": &c.ada, "grace": &c.grace, "demo": &c.demo} {
		var err error
		*user, err = s.Accounts.Create(t.Context(), account.NewUser{Handle: fmt.Sprintf("%s-%d", handle, n)})
		require.NoError(t, err)
	}
	at := today.Add(-time.Hour).UnixMilli()
	got := c.ask(t, http.MethodPost, "/v1/ingest", fmt.Sprintf(`{"events":[{"id":%q,"ts":%d,"lang":"typescript","file":"src/main.ts",
		"keystrokes":60,"lines":8,"key_freq":{"a":60}}]}`, uuid.New(), at), c.ada.Token)
	require.Equal(t, http.StatusAccepted, got.status, "%s", got.body)
	_, err := s.Finalizer.Finalize(t.Context(), s.DB, c.ada.ID, nil)
	require.NoError(t, err)
	require.NoError(t, s.DB.QueryRow(t.Context(), `SELECT id::text FROM sessions WHERE user_id = $1`, c.ada.ID).Scan(&c.session))
	return c
}

// comment has grace comment on ada's session.
func (c *cast) comment(t *testing.T) (id string) {
	t.Helper()
	got := c.ask(t, http.MethodPost, "/v1/sessions/"+c.session+"/comments", `{"body":"Nice streak!"}`, c.grace.Token)
	require.Equal(t, http.StatusCreated, got.status, "%s", got.body)
	id, _ = got.json(t)["comment"].(map[string]any)["id"].(string)
	return id
}

// group has ada make a group, of which demo is a member, and into which grace is invited.
func (c *cast) group(t *testing.T) (id string) {
	t.Helper()
	group, err := c.Groups.Create(t.Context(), c.ada.ID, "Compiler friends")
	require.NoError(t, err)
	require.NoError(t, c.Groups.Invite(t.Context(), c.ada.ID, group, c.demo.Handle))
	require.NoError(t, c.Groups.Accept(t.Context(), c.demo.ID, group))
	require.NoError(t, c.Groups.Invite(t.Context(), c.ada.ID, group, c.grace.Handle))
	return group.String()
}

func (c *cast) link(t *testing.T) string {
	t.Helper()
	link, err := c.Links.URL(t.Context(), "https://example.org", c.demo.ID)
	require.NoError(t, err)
	u, err := url.Parse(link)
	require.NoError(t, err)
	return u.Query().Get("token")
}

// job is the token of a job that reads recaps.
func (c *cast) job(t *testing.T) string {
	t.Helper()
	token, err := servicetoken.Create(t.Context(), c.DB, "job-"+c.demo.Handle, []servicetoken.Scope{servicetoken.ScopeRecaps})
	require.NoError(t, err)
	return token
}

// ask sends a request that is no example.
func (c *cast) ask(t *testing.T, method, path, body, token string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	return send(t, req)
}
