package recapmail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"syscall"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// TLSMode is how a connection to the server is encrypted.
type TLSMode string

// The modes. STARTTLS is refused to be done without; for a server on this machine there is TLSNone.
const (
	TLSStart    TLSMode = "starttls"
	TLSImplicit TLSMode = "tls"
	TLSNone     TLSMode = "none"
)

// Server is the mail server that mails are handed over to.
type Server struct {
	Host     string
	Port     int // 0 is 587, or 465 with TLSImplicit, or 25 with TLSNone
	TLS      TLSMode
	User     string // "" is no authentication
	Password string
}

func (s Server) port() int {
	switch {
	case s.Port != 0:
		return s.Port
	case s.TLS == TLSImplicit:
		return 465
	case s.TLS == TLSNone:
		return 25
	}
	return 587
}

// options are the library's. A mail needs no NOOP before it and no RSET after it: a connection that broke says so at the next
// command, and what was accepted is closed.
func (s Server) options(timeout time.Duration) []mail.Option {
	o := []mail.Option{
		mail.WithPort(s.port()), mail.WithTimeout(timeout), mail.WithoutNoop(), mail.WithoutRset(), mail.WithoutSMTPUTF8(),
	}
	switch s.TLS {
	case TLSImplicit:
		o = append(o, mail.WithSSL())
	case TLSNone:
		o = append(o, mail.WithTLSPolicy(mail.NoTLS))
	case TLSStart:
		o = append(o, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if s.User != "" {
		o = append(o, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(s.User), mail.WithPassword(s.Password))
	}
	return o
}

// conn is a connection to the server, for one mail after another.
type conn struct {
	client *mail.Client
	smtp   *smtp.Client
}

// dial connects. timeout bounds it, and later each mail.
func (s Server) dial(ctx context.Context, timeout time.Duration) (*conn, error) {
	client, err := mail.NewClient(s.Host, s.options(timeout)...)
	if err != nil {
		return nil, fmt.Errorf("set up SMTP client: %w", err)
	}
	c, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to SMTP server: %w", err)
	}
	return &conn{client: client, smtp: c}, nil
}

// away says of a failure to connect that waiting may mend it: the network, or a server that has no time. Anything else is a
// matter of settings: a server that does not want us, is not who it should be, or lacks what was asked for.
func away(err error) bool {
	var answer *textproto.Error
	if errors.As(err, &answer) {
		return answer.Code < 500
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// send hands a mail over and says what came of it.
func (c *conn) send(m *mail.Msg) verdict {
	err := c.client.SendWithSMTPClient(c.smtp, m)
	if m.IsDelivered() {
		return verdict{outcome: Sent, charged: true, broken: err != nil}
	}
	v := judge(err)
	var failed *mail.SendError
	// The library leaves the transaction open when the server does not want the content to begin.
	if !v.broken && errors.As(err, &failed) && failed.Reason == mail.ErrSMTPData {
		v.broken = c.smtp.Reset() != nil
	}
	return v
}

// close says goodbye and hangs up.
func (c *conn) close() {
	if c == nil {
		return
	}
	if c.smtp.UpdateDeadline(goodbye) == nil {
		_ = c.smtp.Quit()
	}
	_ = c.smtp.Close()
}

// hangUp lets go of a connection that is broken.
func (c *conn) hangUp() { _ = c.smtp.Close() }

// goodbye bounds the wait for the server's own.
const goodbye = 2 * time.Second
