package recapmail

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	htmltemplate "html/template"
	netmail "net/mail"
	"net/url"
	"strings"
	texttemplate "text/template"
	"time"

	"github.com/google/uuid"
	"github.com/wneessen/go-mail"

	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/recap"
)

//go:embed recap.txt.tmpl
var textSource string

//go:embed recap.html.tmpl
var htmlSource string

var (
	textTemplate = texttemplate.Must(texttemplate.New("text").Parse(textSource))
	htmlTemplate = htmltemplate.Must(htmltemplate.New("html").Parse(htmlSource))
)

// Letter is what all mails of a job have in common.
type Letter struct {
	From *netmail.Address
	Base string // URL of the API, for links, without a slash at its end
}

// ParseLetter checks a sender, as "Commma <recap@example.org>", and the URL of the API.
func ParseLetter(from, base string) (Letter, error) {
	a, err := netmail.ParseAddress(from)
	if err != nil {
		return Letter{}, errors.New("from: want an address, such as 'Commma <recap@example.org>'")
	}
	base = strings.TrimRight(base, "/")
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.RawQuery != "" || u.Fragment != "" {
		return Letter{}, errors.New("base URL: want the address of the API, such as https://api.example.org")
	}
	return Letter{From: a, Base: base}, nil
}

// MessageID is that of a user's mail of a week, without its brackets: the same whoever sends it, however often. It does not
// tell the user's id.
func (l Letter) MessageID(w recap.Week, userID uuid.UUID) string {
	sum := sha256.Sum256(append([]byte("commma/recap/"+w.String()+"/"), userID[:]...))
	return "recap." + w.String() + "." + hex.EncodeToString(sum[:16]) + "@" + l.domain()
}

func (l Letter) domain() string {
	return l.From.Address[strings.LastIndexByte(l.From.Address, '@')+1:]
}

// page is what the templates get.
type page struct {
	*recap.Recap
	Title, Unsubscribe string
	Total, Prior, Best string
	Langs              []line
	Days               []line
}

// line is something that seconds went to.
type line struct {
	Name, Time string
	Pct        int64 // of the largest, for a bar
}

// Compose makes a user's mail at an instant. unsubscribe is the user's link.
func (l Letter) Compose(r *recap.Addressed, unsubscribe string, now time.Time) (*mail.Msg, error) {
	p := newPage(&r.Recap, unsubscribe)
	var text, html bytes.Buffer
	if err := textTemplate.Execute(&text, p); err != nil {
		return nil, fmt.Errorf("write text: %w", err)
	}
	if err := htmlTemplate.Execute(&html, p); err != nil {
		return nil, fmt.Errorf("write HTML: %w", err)
	}
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	m.FromMailAddress(l.From)
	m.ToMailAddress(&netmail.Address{Address: r.Email})
	m.Subject(p.Title)
	m.SetMessageIDWithValue(l.MessageID(r.Week, r.UserID))
	m.SetDateWithValue(now.UTC())
	m.SetGenHeaderPreformatted("List-Id", "<recap."+l.domain()+">")
	m.SetGenHeaderPreformatted("Auto-Submitted", "auto-generated")
	// Set by hand because the library's one-click function takes https alone, and a server at home has none.
	m.SetListUnsubscribe(unsubscribe)
	m.SetListUnsubscribePost()
	m.SetBodyString(mail.TypeTextPlain, text.String())
	m.AddAlternativeString(mail.TypeTextHTML, html.String())
	return m, nil
}

func newPage(r *recap.Recap, unsubscribe string) page {
	p := page{
		Recap: r, Unsubscribe: unsubscribe, Total: recap.Duration(r.Seconds), Prior: recap.Duration(r.PriorSeconds),
		Best: recap.Duration(r.BestSeconds),
		Title: fmt.Sprintf("Your week %s to %s: %s", r.Week.Start().Midnight().Format("2 January"),
			(r.Week.End() - 1).Midnight().Format("2 January"), recap.Duration(r.Seconds)),
	}
	most := int64(1)
	for _, d := range r.Days {
		most = max(most, d.Seconds)
	}
	for _, d := range r.Days {
		p.Days = append(p.Days, line{d.Weekday(), recap.Duration(d.Seconds), d.Seconds * 100 / most})
	}
	for _, l := range r.Langs {
		p.Langs = append(p.Langs, line{languages.DisplayName(l.Key), recap.Duration(l.Seconds), l.Seconds * 100 / max(r.Seconds, 1)})
	}
	if r.OtherSeconds > 0 {
		p.Langs = append(p.Langs, line{"Other", recap.Duration(r.OtherSeconds), r.OtherSeconds * 100 / max(r.Seconds, 1)})
	}
	return p
}
