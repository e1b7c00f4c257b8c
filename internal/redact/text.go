package redact

import (
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

// tokens are bearer tokens, and passwords in URLs.
var tokens = regexp.MustCompile(`cmms?_[A-Za-z0-9_-]{8,}|(://[^/@\s:]*):[^/@\s]*@`)

// Secrets takes tokens and the passwords of URLs out of a text.
func Secrets(text string) string {
	return tokens.ReplaceAllStringFunc(text, func(found string) string {
		if prefix, _, isToken := strings.Cut(found, "_"); isToken && strings.HasPrefix(prefix, "cmm") {
			return prefix + "_…"
		}
		user, _, _ := strings.Cut(strings.TrimPrefix(found, "://"), ":")
		return "://" + user + ":…@"
	})
}

// Terminal is err for whoever ran a command. It keeps what Error leaves out, since they gave it themselves, except what
// the servers quote of their data, and secrets.
func Terminal(err error) string {
	text := err.Error()
	each(err, func(e error) {
		if quotesData(e) {
			text = strings.ReplaceAll(text, e.Error(), Error(e))
		}
	})
	return Secrets(text)
}

// quotesData says whether the text of an error quotes what is stored, or what was about to be: an answer of a server, or
// pgx, which has no type of its own for an argument that it could not encode.
func quotesData(err error) bool {
	switch err.(type) { //nolint:errorlint // each layer is looked at
	case *pgconn.PgError, redis.Error, pgx.ScanArgError:
		return true
	}
	return strings.HasPrefix(err.Error(), "failed to encode args[") || strings.HasPrefix(err.Error(), "unable to encode ")
}

// each calls fn with err and all that it wraps.
func each(err error, fn func(error)) {
	if err == nil {
		return
	}
	fn(err)
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			each(e, fn)
		}
		return
	}
	each(errors.Unwrap(err), fn)
}

// Writer passes on what is written to it, without secrets. Each write must be whole: a token in two pieces is not found.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ w io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, Secrets(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
