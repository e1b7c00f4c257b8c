package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/following"
	"github.com/commma/commma/internal/groups"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/profile"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/recapmail"
	"github.com/commma/commma/internal/redact"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/store"
)

// retryUnavailable is what a 503 says in Retry-After when nothing better is known.
const retryUnavailable = 5 * time.Second

// statusOf is the contract's table of codes and statuses; admission names its refusals by the same codes.
var statusOf = map[api.ErrorCode]int{
	api.ErrorCodeValidationError:    http.StatusBadRequest,
	api.ErrorCodeUnauthorized:       http.StatusUnauthorized,
	api.ErrorCodeForbidden:          http.StatusForbidden,
	api.ErrorCodeNotFound:           http.StatusNotFound,
	api.ErrorCodeConflict:           http.StatusConflict,
	api.ErrorCodePayloadTooLarge:    http.StatusRequestEntityTooLarge,
	api.ErrorCodeRateLimited:        http.StatusTooManyRequests,
	api.ErrorCodeInternalError:      http.StatusInternalServerError,
	api.ErrorCodeServiceUnavailable: http.StatusServiceUnavailable,
}

// sentinels are the domain's errors that are one value each. Each is an intended answer, so none of them is logged beyond
// the access log: a queue that is full would otherwise fill the log too.
var sentinels = []struct {
	err     error
	code    api.ErrorCode
	message string
}{
	{aggregate.ErrNoSession, api.ErrorCodeNotFound, "not found"},
	{sessions.ErrNotFound, api.ErrorCodeNotFound, "not found"},
	{profile.ErrNotFound, api.ErrorCodeNotFound, "not found"},
	{profile.ErrBadDays, api.ErrorCodeValidationError, "want 1 to 366 days, from before to"},
	{sessions.ErrBadCursor, api.ErrorCodeValidationError, "invalid cursor"},
	{engagement.ErrNotFound, api.ErrorCodeNotFound, "not found"},
	{engagement.ErrOwnSession, api.ErrorCodeForbidden, "nobody can give kudos to a session of their own"},
	{engagement.ErrOff, api.ErrorCodeForbidden, "nothing new is kept of a user on off: change privacy first"},
	{engagement.ErrNotYours, api.ErrorCodeForbidden, "only its author and the owner of the session can delete a comment"},
	{engagement.ErrBadCursor, api.ErrorCodeValidationError, "invalid cursor"},
	{engagement.ErrBusy, api.ErrorCodeServiceUnavailable, "the session is busy, nothing was changed: try again later"},
	{groups.ErrNotFound, api.ErrorCodeNotFound, "not found"},
	{groups.ErrNotOwner, api.ErrorCodeForbidden, "only the owner of the group may do that"},
	{groups.ErrOff, api.ErrorCodeForbidden, "nothing new is kept of a user on off: change privacy first"},
	{groups.ErrMember, api.ErrorCodeConflict, "a member needs no invitation, and an owner leaves instead"},
	{groups.ErrTooMany, api.ErrorCodeConflict, "a limit is reached: the group is full, or there are too many groups or invitations"},
	{following.ErrNotFound, api.ErrorCodeNotFound, "not found"},
	{following.ErrSelf, api.ErrorCodeForbidden, "nobody can follow themselves"},
	{following.ErrOff, api.ErrorCodeForbidden, "nothing new is kept of a user on off: change privacy first"},
	{following.ErrTooMany, api.ErrorCodeConflict, "a limit is reached: nobody can follow more users"},
	{recap.ErrBadCursor, api.ErrorCodeValidationError, "invalid cursor"},
	{recap.ErrBusy, api.ErrorCodeServiceUnavailable, "too busy: try again later"},
	{recap.ErrUnknownUser, api.ErrorCodeForbidden, "the user of this token does not exist"},
	{recapmail.ErrBadLink, api.ErrorCodeValidationError, "this link is not one of ours, or not whole"},
	{leaderboard.ErrBadCursor, api.ErrorCodeValidationError, "invalid cursor"},
	{leaderboard.ErrBusy, api.ErrorCodeServiceUnavailable, "too busy: try again later"},
	{ingest.ErrBodyTooLarge, api.ErrorCodePayloadTooLarge, "the body is too large: send fewer events at once"},
	{ingest.ErrTooManyEvents, api.ErrorCodePayloadTooLarge, "too many events: send fewer at once"},
	{ingest.ErrUnknownUser, api.ErrorCodeForbidden, "the user of this token does not exist"},
	{ingest.ErrOverloaded, api.ErrorCodeServiceUnavailable, "too busy, nothing was stored: try again later"},
	{ingest.ErrUserBusy, api.ErrorCodeServiceUnavailable, "the account is busy, nothing was stored: try again later"},
	{ingest.ErrStopped, api.ErrorCodeServiceUnavailable, "shutting down, nothing was stored: try again later"},
	{account.ErrUnknownUser, api.ErrorCodeForbidden, "the user of this token does not exist"},
	{account.ErrBusy, api.ErrorCodeServiceUnavailable, "the account is busy, nothing was changed: try again later"},
	{account.ErrNotShown, api.ErrorCodeServiceUnavailable, "changed, but boards do not show it yet: try again"},
	{aggregate.ErrUnknownUser, api.ErrorCodeForbidden, "the user of this token does not exist"},
	{export.ErrBusy, api.ErrorCodeServiceUnavailable, "an export is under way: try again later"},
	{errMisframed, api.ErrorCodeValidationError, "the body is not framed as HTTP/1.1 says"},
	{errBodyNotRead, api.ErrorCodeServiceUnavailable, "the body did not arrive in full and in time"},
}

// requestError is a request that cannot be understood, as the handlers find it. Its texts are ours, not the client's.
type requestError struct{ details []api.ErrorDetail }

// invalid says about one field what is wanted instead. It does not repeat what was sent: the sender knows, and the text
// may end up in other places than the answer.
func invalid(field, want string) *requestError {
	return finding(api.ErrorDetailCodeInvalid, field, want)
}

// finding is a requestError about one field, of any kind.
func finding(code api.ErrorDetailCode, field, want string) *requestError {
	return &requestError{[]api.ErrorDetail{{Code: code, Path: []string{field}, Message: want}}}
}

// Error is the first finding, with its field.
func (e *requestError) Error() string {
	d := e.details[0]
	return strings.Join(append(slices.Clone(d.Path), d.Message), ": ")
}

// answer is what an error looks like to the client.
type answer struct {
	code       api.ErrorCode
	message    string
	details    []api.ErrorDetail
	retryAfter time.Duration // 0: the client is not told
}

// answerFor is the one place that knows what an error means to a client. What it does not know is the service's fault.
func answerFor(err error) answer {
	// Single values before whole classes: one may wrap a timeout, and its message says more.
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return answer{code: s.code, message: s.message}
		}
	}
	var (
		refused *admission.Error
		request *requestError
		batch   *ingest.BadRequestError
		field   *account.InvalidError
		tooBig  *http.MaxBytesError
		routing *echo.HTTPError
		merged  *aggregate.AbsorbedError
	)
	switch {
	case errors.Is(err, account.ErrHandleTaken):
		return handleConflict(api.ErrorDetailCodeHandleTaken, "the handle is taken", "choose another one")
	case errors.Is(err, account.ErrHandleChanges):
		return handleConflict(api.ErrorDetailCodeHandleChanges, "the handle was changed too often", "take a former one back, or wait")
	case errors.As(err, &merged):
		return answer{
			code: api.ErrorCodeConflict, message: "the session was merged into another one",
			details: []api.ErrorDetail{{Code: api.ErrorDetailCodeMergedInto, Path: []string{"id"}, Message: merged.Heir.String()}},
		}
	case errors.As(err, &refused):
		return answer{code: api.ErrorCode(refused.Code), message: refused.Message, retryAfter: refused.Limit.RetryAfter}
	case errors.As(err, &request):
		return answer{code: api.ErrorCodeValidationError, message: request.Error(), details: request.details}
	case errors.As(err, &batch):
		return answer{code: api.ErrorCodeValidationError, message: batch.Message}
	case errors.As(err, &field):
		request = invalid(field.Field, field.Message)
		return answer{code: api.ErrorCodeValidationError, message: request.Error(), details: request.details}
	case errors.As(err, &tooBig):
		return answer{code: api.ErrorCodePayloadTooLarge, message: "the body is too large"}
	case errors.As(err, &routing):
		return answerForEcho(routing)
	case store.IsUnavailable(err):
		return answer{code: api.ErrorCodeServiceUnavailable, message: "try again later"}
	}
	return answer{code: api.ErrorCodeInternalError}
}

func handleConflict(code api.ErrorDetailCode, message, want string) answer {
	return answer{
		code: api.ErrorCodeConflict, message: message,
		details: []api.ErrorDetail{{Code: code, Path: []string{"handle"}, Message: want}},
	}
}

// answerForEcho translates what Echo and the generated code report themselves: no such route, no such method, a query
// parameter that is given twice.
func answerForEcho(err *echo.HTTPError) answer {
	switch {
	case err.Code == http.StatusNotFound, err.Code == http.StatusMethodNotAllowed:
		return answer{code: api.ErrorCodeNotFound, message: "not found"}
	case err.Code >= 400 && err.Code < 500:
		return answer{code: api.ErrorCodeValidationError, message: "a parameter cannot be understood: is one given twice?"}
	}
	return answer{code: api.ErrorCodeInternalError}
}

// answerError is Echo's HTTPErrorHandler: it writes the envelope and logs what the service is to blame for.
func (s *Server) answerError(err error, c echo.Context) {
	a := answerFor(err)
	// A refusal with a code that the contract lacks is a bug here, not something to pass on.
	status, known := statusOf[a.code]
	if !known {
		a.code, status = api.ErrorCodeInternalError, http.StatusInternalServerError
	}
	s.logFailure(c, status, err)
	// What has begun cannot become an error any more; the client sees that it is cut short.
	if c.Response().Committed {
		return
	}
	h := c.Response().Header()
	switch status {
	case http.StatusInternalServerError:
		a.message = "internal error, request " + requestID(c)
	case http.StatusUnauthorized:
		h.Set(echo.HeaderWWWAuthenticate, "Bearer")
	case http.StatusServiceUnavailable:
		a.retryAfter = max(a.retryAfter, retryUnavailable)
	}
	// Other errors keep the headers that admit has set.
	var refused *admission.Error
	if errors.As(err, &refused) {
		setLimitHeaders(h, refused.Limit)
	}
	if a.retryAfter > 0 {
		h.Set(echo.HeaderRetryAfter, strconv.FormatInt(ceilSeconds(a.retryAfter), 10))
	}
	if a.details == nil {
		a.details = []api.ErrorDetail{} // a list on the wire, never null
	}
	body := api.ErrorAnswer{Error: api.Error{Code: a.code, Message: a.message, Details: a.details}}
	// The client may be gone; then there is nobody to tell.
	_ = writeJSON(c, status, body)
}

// ceilSeconds rounds up: who comes back after that long must not be too early.
func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// logFailure writes one line for what the service is to blame for: nothing for refusals, for clients that hung up, and
// for the intended 503 of a busy user or a full queue, which the access log counts.
func (s *Server) logFailure(c echo.Context, status int, err error) {
	if status < http.StatusInternalServerError || c.Request().Context().Err() == context.Canceled {
		return
	}
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel.err) {
			return
		}
	}
	level := slog.LevelError
	if status == http.StatusServiceUnavailable {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("err", redact.Error(err)),
		slog.String("route", s.route(c)),
		slog.String("request_id", requestID(c)),
	}
	var p *panicError
	if errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	s.deps.Logger.LogAttrs(c.Request().Context(), level, "request failed", attrs...)
}
