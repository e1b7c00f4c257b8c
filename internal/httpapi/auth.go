package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/servicetoken"
)

// Admitter decides whether a request may go on. A refusal is an *admission.Error.
type Admitter interface {
	Admit(ctx context.Context, req admission.Request) (admission.Grant, error)
	AdmitAnonymous(ctx context.Context, scope admission.Scope, addr netip.Addr) (admission.Grant, error)
	// AdmitService lets in jobs, by tokens that belong to no user.
	AdmitService(ctx context.Context, req admission.Request, need servicetoken.Scope) error
	FillMode(ctx context.Context, userID uuid.UUID, e privacy.Entry, readAt time.Time)
}

// admit lets in whoever has a good token, and tells them where they stand with their limit. Its answer, and whatever
// error follows, is for that user alone.
func (h *handlers) admit(c echo.Context, scope admission.Scope) (admission.Grant, error) {
	// A missing token goes the same way as a wrong one, so that it counts against the address too.
	token, _ := bearerToken(c.Request().Header)
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, cachePrivate)
	g, err := h.Admission.Admit(c.Request().Context(), admission.Request{Token: token, Scope: scope, Addr: address(c)})
	if err != nil {
		return admission.Grant{}, err
	}
	setLimitHeaders(header, g.Limit)
	return g, nil
}

// admitAnyone lets in everybody, limited by address when there is no Authorization header; the grant's user is then
// uuid.Nil. A header that is there must be good: a client that believes to be signed in should find out.
func (h *handlers) admitAnyone(c echo.Context, scope admission.Scope) (admission.Grant, error) {
	// The answer depends on who asks, also for a cache between us.
	c.Response().Header().Add(echo.HeaderVary, echo.HeaderAuthorization)
	if _, sent := bearerToken(c.Request().Header); sent {
		return h.admit(c, scope)
	}
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, cachePublic)
	g, err := h.Admission.AdmitAnonymous(c.Request().Context(), scope, address(c))
	if err != nil {
		return admission.Grant{}, err
	}
	g.UserID = uuid.Nil // whatever it says: nobody has proven to be anybody
	setLimitHeaders(header, g.Limit)
	return g, nil
}

// admitViewer lets in everybody to a read of somebody's data. An answer that can hold paths is for the viewer alone, also
// when nobody is signed in: what a cache kept would outlive a change of mode. Any other gets a tag.
func (h *handlers) admitViewer(c echo.Context, k privacy.Kind) (admission.Grant, error) {
	g, err := h.admitAnyone(c, admission.ScopeRead)
	if k.HoldsPaths() {
		c.Response().Header().Set(echo.HeaderCacheControl, cachePrivate)
	} else {
		tagAnswer(c)
	}
	return g, err
}

// bearerToken is the token of the Authorization header: "" when it holds another scheme, or when there are several.
// sent says whether there is such a header at all.
func bearerToken(h http.Header) (token string, sent bool) {
	values := h.Values(echo.HeaderAuthorization)
	if len(values) != 1 {
		return "", len(values) > 0
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(token), true
}

// setLimitHeaders says where the sender stands. Without a limit it says nothing.
func setLimitHeaders(h http.Header, l admission.LimitState) {
	if l.Limit <= 0 {
		return
	}
	h.Set(headerLimit, strconv.Itoa(l.Limit))
	h.Set(headerRemaining, strconv.Itoa(l.Remaining))
	h.Set(headerReset, strconv.FormatInt(l.ResetAt.Unix(), 10))
}

// address is the client's, or the zero Addr when it is not known (a Unix socket).
func address(c echo.Context) netip.Addr {
	addr, err := netip.ParseAddr(c.RealIP())
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// clientAddress finds a request's address. Echo believes every X-Forwarded-For unless it is told whom to believe: only
// the proxies that are named, not even loopback and private networks, which it trusts by default.
func clientAddress(proxies []netip.Prefix) echo.IPExtractor {
	if len(proxies) == 0 {
		return echo.ExtractIPDirect()
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		p = p.Masked()
		trust = append(trust, echo.TrustIPRange(&net.IPNet{
			IP:   p.Addr().AsSlice(),
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}
