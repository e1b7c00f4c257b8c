package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/servicetoken"
)

// AdmitService lets in a job whose token has a scope. A refusal is an *Error: 403 for a good token that may not do this, of
// a job or of a user; 401 for any other. Jobs are few, and each request is long: Postgres is asked each time, so that a
// revoked token is refused at once, and nothing is counted but failures.
func (a *Admitter) AdmitService(ctx context.Context, req Request, need servicetoken.Scope) error {
	err := a.admitService(ctx, req, need)
	a.deps.Observer.Admission(req.Scope, codeOf(err), false)
	return err
}

func (a *Admitter) admitService(ctx context.Context, req Request, need servicetoken.Scope) error {
	if !servicetoken.Is(req.Token) {
		g, _, err := a.admit(ctx, req)
		if err != nil {
			return err
		}
		if g.UserID != uuid.Nil {
			return errNoJob()
		}
		return errUnauthorized()
	}
	pctx, cancel := context.WithTimeout(ctx, a.cfg.PostgresTimeout)
	defer cancel()
	err := servicetoken.Check(pctx, a.deps.DB, req.Token, need)
	switch {
	case errors.Is(err, servicetoken.ErrUnknown):
		return a.refuse(ctx, req.Addr, errUnauthorized())
	case errors.Is(err, servicetoken.ErrScope):
		return errNoJob()
	case err != nil:
		return errUnavailable(fmt.Errorf("check service token: %w", err))
	}
	return nil
}

func errNoJob() *Error {
	return &Error{Code: CodeForbidden, Message: "this needs a service token with the scope for it"}
}
