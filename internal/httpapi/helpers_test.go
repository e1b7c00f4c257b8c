package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	apidoc "github.com/commma/commma/api"
	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/profile"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/servicetoken"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/views"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var (
	testNow  = time.Date(2026, 6, 17, 9, 30, 0, 123_456_789, time.UTC) // a Wednesday
	testUser = uuid.MustParse("3f0e6a3d-7b0b-4b7d-8d43-5e5f64b1b3a2")
)

const (
	goodToken = "cmm_good"
	jobToken  = "cmms_good"
)

// contract is openapi.yaml, read once.
var contract = sync.OnceValue(func() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData(apidoc.Document)
	if err != nil {
		panic(err)
	}
	return doc
})

// fake stands for all other domains. They have tests of their own; here only what they answer matters, above all that
// they fail. A nil function answers something harmless.
type fake struct {
	admit  func(admission.Request) (admission.Grant, error)
	store  func(context.Context, *ingest.Batch) (ingest.Stored, error)
	me     func() (account.Facts, error)
	change func(account.Change) error
	page   func(leaderboard.Board, leaderboard.Query) (leaderboard.Page, error)
	list   func(context.Context, *sessions.Cursor, int) (sessions.Page, error)
	get    func(uuid.UUID) (*sessions.Detail, error)
	find   func(uuid.UUID) (sessions.Ref, error)
	user   func(string) (profile.User, error)
	today  error
	export func(context.Context, io.Writer) error

	heatmap func(string, *profile.Days) (profile.Heatmap, error)
	record  func(views.Viewer, views.Target) bool
	seen    *time.Time
	ping    error
	check   func() ([]string, error)
	filled  []privacy.Entry
	delete  error

	engaged error
	viewer  uuid.UUID

	job bool // the good token is a job's too
	// admitJob is told when the request of a job ends.
	admitJob func(deadline time.Time)
	walked   []uuid.UUID
	walk     error
	link     error
}

var testLimit = admission.LimitState{Limit: 300, Remaining: 299, ResetAt: testNow.Add(12 * time.Second)}

func (f *fake) Admit(_ context.Context, r admission.Request) (admission.Grant, error) {
	if f.admit != nil {
		return f.admit(r)
	}
	if r.Token != goodToken {
		return admission.Grant{}, &admission.Error{Code: admission.CodeUnauthorized, Message: "no"}
	}
	return admission.Grant{UserID: testUser, Limit: testLimit}, nil
}

func (f *fake) AdmitAnonymous(_ context.Context, s admission.Scope, a netip.Addr) (admission.Grant, error) {
	if f.admit != nil {
		return f.admit(admission.Request{Scope: s, Addr: a})
	}
	return admission.Grant{Limit: testLimit}, nil
}

func (f *fake) AdmitService(ctx context.Context, r admission.Request, _ servicetoken.Scope) error {
	if deadline, ok := ctx.Deadline(); ok && f.admitJob != nil {
		f.admitJob(deadline)
	}
	switch {
	case r.Token == jobToken:
		return nil
	case r.Token == goodToken && f.job:
		return nil
	case r.Token == goodToken:
		return &admission.Error{Code: admission.CodeForbidden, Message: "no"}
	}
	return &admission.Error{Code: admission.CodeUnauthorized, Message: "no"}
}

func (f *fake) Own(_ context.Context, id uuid.UUID, w recap.Week) (*recap.Recap, error) {
	return &recap.Recap{UserID: id, Handle: "demo", Week: w, AsOf: testNow}, nil
}

func (f *fake) WalkShown(_ context.Context, w recap.Week, after uuid.UUID, each func(*recap.Addressed) error, paged func() error) error {
	for _, id := range f.walked {
		if bytes.Compare(id[:], after[:]) <= 0 {
			continue
		}
		r := recap.Addressed{Recap: recap.Recap{UserID: id, Handle: "demo", Week: w, AsOf: testNow}, Email: "secret@example.org"}
		if err := errors.Join(each(&r), paged()); err != nil {
			return err
		}
	}
	return f.walk
}

func (f *fake) Unsubscribe(context.Context, string) error { return f.link }

func (f *fake) FillMode(_ context.Context, _ uuid.UUID, e privacy.Entry, _ time.Time) {
	f.filled = append(f.filled, e)
}

func (f *fake) Store(ctx context.Context, _ uuid.UUID, b *ingest.Batch) (ingest.Stored, error) {
	if f.store != nil {
		return f.store(ctx, b)
	}
	return ingest.Stored{Received: b.Received, Mode: activity.ModeFull}, nil
}

func (f *fake) Me(context.Context, uuid.UUID) (account.Facts, error) {
	if f.me != nil {
		return f.me()
	}
	return demoFacts(), nil
}

func demoFacts() account.Facts {
	return account.Facts{ID: testUser, Handle: "demo", Mode: activity.ModeFull, Zone: "UTC", CreatedAt: testNow}
}

func (f *fake) Change(_ context.Context, _ uuid.UUID, c account.Change) error {
	if f.change != nil {
		return f.change(c)
	}
	return nil
}

func (f *fake) DeleteUser(context.Context, uuid.UUID) error { return f.delete }

func (f *fake) DeleteSession(context.Context, uuid.UUID, uuid.UUID) error { return f.delete }

func (f *fake) Page(_ context.Context, _ time.Time, b leaderboard.Board, q leaderboard.Query) (leaderboard.Page, error) {
	if f.page != nil {
		return f.page(b, q)
	}
	return leaderboard.Page{Board: b, UpdatedAt: testNow}, nil
}

func (f *fake) List(ctx context.Context, _, _ uuid.UUID, after *sessions.Cursor, limit int) (sessions.Page, error) {
	if f.list != nil {
		return f.list(ctx, after, limit)
	}
	return sessions.Page{}, nil
}

func (f *fake) Find(_ context.Context, _, id uuid.UUID) (sessions.Ref, error) {
	if f.find != nil {
		return f.find(id)
	}
	return sessions.Ref{Owner: testUser, ID: id}, nil
}

func (f *fake) User(_ context.Context, _ uuid.UUID, handle string) (profile.User, error) {
	if f.user != nil {
		return f.user(handle)
	}
	return profile.User{ID: testUser, Handle: handle, CreatedAt: testNow}, nil
}

func (f *fake) Stats(context.Context, uuid.UUID, uuid.UUID) (profile.Stats, error) {
	return profile.Stats{}, nil
}

func (f *fake) Heatmap(ctx context.Context, _ uuid.UUID, handle string, days *profile.Days) (profile.Heatmap, error) {
	if f.heatmap != nil {
		return f.heatmap(handle, days)
	}
	u, err := f.User(ctx, uuid.Nil, "demo")
	return profile.Heatmap{User: u, Days: profile.Days{From: 1, To: 2}, Seconds: []int64{60, 0}}, err
}

func (f *fake) Today(context.Context, uuid.UUID) (aggregate.Today, error) {
	return aggregate.Today{Day: calendar.Date(2026, 6, 17), Zone: "UTC", Seconds: 120, Finalized: 60}, f.today
}

func (f *fake) Export(ctx context.Context, _ uuid.UUID, w io.Writer) error {
	if f.export != nil {
		return f.export(ctx, w)
	}
	_, err := io.WriteString(w, "{}\n")
	return err
}

func (f *fake) Record(_ context.Context, v views.Viewer, t views.Target) bool {
	return f.record == nil || f.record(v, t)
}

func (f *fake) Days(_ context.Context, _ uuid.UUID, days int) ([]views.Day, error) {
	return make([]views.Day, days), nil
}

func (f *fake) At(context.Context, uuid.UUID) (*time.Time, error) { return f.seen, nil }

func (f *fake) Get(_ context.Context, _, id uuid.UUID) (*sessions.Detail, error) {
	if f.get != nil {
		return f.get(id)
	}
	return &sessions.Detail{Session: sessions.Session{ID: id, StartedAt: testNow, EndedAt: testNow.Add(time.Hour)}}, nil
}

func (f *fake) Kudos(_ context.Context, _, id uuid.UUID, give bool) (engagement.Given, error) {
	return engagement.Given{SessionID: id, Given: give, Kudos: 1}, f.engaged
}

func (f *fake) Share(context.Context, uuid.UUID) (bool, error) { return f.engaged == nil, f.engaged }

func (f *fake) Comment(_ context.Context, _, _ uuid.UUID, body string) (engagement.Comment, int64, error) {
	return engagement.Comment{ID: uuid.New(), Handle: "demo", Body: body, CreatedAt: testNow}, 1, f.engaged
}

func (f *fake) DeleteComment(context.Context, uuid.UUID, uuid.UUID) error { return f.engaged }

func (f *fake) Comments(_ context.Context, viewer, id uuid.UUID, after *engagement.Cursor, _ int) (engagement.Page, error) {
	f.viewer = viewer
	p := engagement.Page{SessionID: id, Total: 1}
	if after == nil {
		p.Comments = []engagement.Comment{{ID: testUser, Handle: "demo", Body: "<b>", CreatedAt: testNow}}
		p.Next = &engagement.Cursor{At: testNow, ID: id}
	}
	return p, f.engaged
}

func (f *fake) Ping(context.Context) error { return f.ping }

func (f *fake) Check(context.Context) ([]string, error) {
	if f.check != nil {
		return f.check()
	}
	return nil, nil
}

// links is apart because another dependency has a Check too.
type links struct{ *fake }

func (l links) Check(context.Context, string) error { return l.link }

// logBuffer keeps all that was logged, at every level.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

type bundle struct {
	*Server
	logs     *logBuffer
	registry *prometheus.Registry
	clock    *clock.Manual
}

func setup(t *testing.T, f *fake) bundle { return setupWith(t, f, Config{}) }

func setupWith(t *testing.T, f *fake, cfg Config) bundle {
	t.Helper()
	return setupDeps(t, cfg, func(d *Deps) {
		d.Admission, d.Events, d.Accounts, d.Boards, d.Sessions, d.Engaged, d.Postgres, d.Redis = f, f, f, f, f, f, f, f
		d.Profiles, d.Views, d.ViewDays, d.LastSeen, d.Today, d.Exports = f, f, f, f, f, f
		d.Recaps, d.Links = f, links{f}
	})
}

// setupDeps makes a server of fakes, except for what change puts in their place.
func setupDeps(t *testing.T, cfg Config, change func(*Deps)) bundle {
	t.Helper()
	b := bundle{logs: &logBuffer{}, registry: prometheus.NewRegistry(), clock: clock.NewManual(testNow)}
	f := &fake{}
	d := Deps{
		Admission: f, Events: f, Accounts: f, Boards: f, Sessions: f, Engaged: f, Postgres: f, Redis: f,
		Profiles: f, Views: f, ViewDays: f, LastSeen: f, Today: f, Exports: f, Recaps: f, Links: links{f},
		Languages: languages.New(), Metrics: b.registry, Clock: b.clock,
		Logger: slog.New(slog.NewJSONHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	(&fakeCircles{}).with(&d)
	change(&d)
	s, err := New(d, cfg)
	require.NoError(t, err)
	b.Server = s
	return b
}

type reply struct {
	status int
	header http.Header
	body   string
}

// json reads the body into a map.
func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &m), r.body)
	return m
}

// requireError checks the envelope and returns it.
func (r reply) requireError(t *testing.T, status int, code api.ErrorCode) api.Error {
	t.Helper()
	require.Equal(t, status, r.status, r.body)
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	var e api.ErrorAnswer
	require.NoError(t, json.Unmarshal([]byte(r.body), &e), r.body)
	require.Equal(t, code, e.Error.Code)
	require.NotEmpty(t, e.Error.Message)
	require.Contains(t, r.body, `"details":[`, "details is a list, also when it is empty")
	return e.Error
}

type option func(*http.Request)

func withHeader(name, value string) option {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func signedIn() option { return withHeader("Authorization", "Bearer "+goodToken) }

// call sends a request without a network and checks the answer against the contract.
func (b bundle) call(t *testing.T, method, target, body string, options ...option) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for _, o := range options {
		o(r)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	got := reply{w.Code, w.Header(), w.Body.String()}
	requireContract(t, r, got)
	return got
}

// raw is call for what is not held against the contract, such as a compressed answer.
func (b bundle) raw(t *testing.T, target string, options ...option) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	for _, o := range options {
		o(r)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.String()}
}

// requireContract checks that the answer is one that openapi.yaml has for the route. What matches no route is left to
// the caller.
func requireContract(t *testing.T, r *http.Request, got reply) {
	t.Helper()
	item := contract().Paths.Find(pathPattern(r.URL.Path))
	if item == nil || item.Operations()[r.Method] == nil {
		return
	}
	documented := item.GetOperation(r.Method).Responses.Status(got.status)
	require.NotNil(t, documented, "%s %s: status %d is not in openapi.yaml", r.Method, r.URL.Path, got.status)
	for name := range documented.Value.Headers {
		require.Contains(t, got.header, http.CanonicalHeaderKey(name), "%s %s", r.Method, r.URL.Path)
	}
	if content := documented.Value.Content.Get("application/json"); content != nil {
		var v any
		require.NoError(t, json.Unmarshal([]byte(got.body), &v), got.body)
		require.NoError(t, content.Schema.Value.VisitJSON(v), got.body)
	}
}

// pathPattern is the path in the contract that a path of a request belongs to: of those that fit, the one with the fewest
// parameters.
func pathPattern(path string) string {
	best, fewest := path, 1000
	for pattern := range contract().Paths.Map() {
		if n := strings.Count(pattern, "{"); n < fewest && fits(pattern, path) {
			best, fewest = pattern, n
		}
	}
	return best
}

func fits(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && (!strings.HasPrefix(want[i], "{") || got[i] == "") {
			return false
		}
	}
	return true
}
