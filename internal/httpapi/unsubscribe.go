package httpapi

import (
	"context"
	_ "embed"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/httpapi/api"
)

// MailLinks are the links in mails. Neither asks who is there: the token of a link says whose mail it was in.
type MailLinks interface {
	Check(ctx context.Context, token string) error
	Unsubscribe(ctx context.Context, token string) error
}

//go:embed pages/unsubscribe.html
var unsubscribePage string

//go:embed pages/unsubscribed.html
var unsubscribedPage string

// GetUnsubscribe shows a button. Following the link alone must not change anything: programs that check mails do that.
func (h *handlers) GetUnsubscribe(c echo.Context, params api.GetUnsubscribeParams) error {
	if err := h.Links.Check(c.Request().Context(), value(params.Token)); err != nil {
		return err
	}
	return writePage(c, unsubscribePage)
}

// Unsubscribe stops the mails. No limit stands in the way: mail programs send it from few addresses for many users, and who
// has no good token has done nothing.
func (h *handlers) Unsubscribe(c echo.Context, params api.UnsubscribeParams) error {
	if err := h.Links.Unsubscribe(c.Request().Context(), value(params.Token)); err != nil {
		return err
	}
	return writePage(c, unsubscribedPage)
}

// writePage answers with a page that loads nothing and tells nobody where it was linked from: its address has the token.
func writePage(c echo.Context, page string) error {
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, cachePrivate)
	header.Set(echo.HeaderContentSecurityPolicy, "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	header.Set(echo.HeaderReferrerPolicy, "no-referrer")
	return c.HTML(http.StatusOK, page)
}
