package admission

// Code says why a request was not admitted, in the words of the error envelope.
type Code string

// The codes of refusals.
const (
	CodeUnauthorized Code = "UNAUTHORIZED"        // no token, a broken one, or not the user's
	CodeForbidden    Code = "FORBIDDEN"           // a well-formed token of a user who does not exist
	CodeRateLimited  Code = "RATE_LIMITED"        // too many requests, or failures, in the hour
	CodeUnavailable  Code = "SERVICE_UNAVAILABLE" // Postgres had to be asked and did not answer

	codeInternal Code = "INTERNAL_ERROR" // a mistake of ours, for metrics only: it is not an *Error
)

// Error is a refusal. Message is for the client. Limit is set for CodeRateLimited.
type Error struct {
	Code    Code
	Message string
	Limit   LimitState
	cause   error // for the log; never holds a token
}

// Error implements error.
func (e *Error) Error() string {
	if e.cause != nil {
		return "admit: " + e.Message + ": " + e.cause.Error()
	}
	return "admit: " + e.Message
}

// Unwrap is the failure behind an unavailable service.
func (e *Error) Unwrap() error { return e.cause }

func errUnauthorized() *Error {
	return &Error{Code: CodeUnauthorized, Message: "missing or invalid token"}
}

func errForbidden() *Error {
	return &Error{Code: CodeForbidden, Message: "the user of this token does not exist"}
}

func errRateLimited(l LimitState) *Error {
	return &Error{Code: CodeRateLimited, Message: "too many requests", Limit: l}
}

func errUnavailable(cause error) *Error {
	return &Error{Code: CodeUnavailable, Message: "authentication is not available", cause: cause}
}
