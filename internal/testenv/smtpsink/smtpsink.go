// Package smtpsink is a mail server for tests: it takes mails on a port of this machine, keeps count of them by
// Message-ID, and refuses, hangs up or forgets its manners where it is told to. Only tests may import it.
package smtpsink

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
	"sync"
)

// Stage is a point at which a sink can be told what to do.
type Stage string

// The stages, in the order of a mail. At Accepted the sink has the mail, and is about to say so.
const (
	Connect  Stage = "connect"
	Mail     Stage = "mail"
	Rcpt     Stage = "rcpt"
	Data     Stage = "data"
	Content  Stage = "content"
	Accepted Stage = "accepted"
)

// Cut, instead of a code, has the sink hang up without a word.
const Cut = -1

// DecideFunc says what a sink answers at a stage, for a recipient once there is one: 0 is to go on. It is called by several
// connections at a time.
type DecideFunc func(s Stage, rcpt string) int

// Sink is a mail server.
type Sink struct {
	Host string
	Port int

	decide   DecideFunc
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	count  map[string]int    // mails by Message-ID
	raw    map[string][]byte // of some
	doubt  map[string]bool
	most   int
	total  int
}

// New starts a sink on a free port, or on address where that is not empty.
func New(address string, decide DecideFunc) (*Sink, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	if decide == nil {
		decide = func(Stage, string) int { return 0 }
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for mails: %w", err)
	}
	at, _ := l.Addr().(*net.TCPAddr)
	s := &Sink{
		Host: at.IP.String(), Port: at.Port, decide: decide, listener: l, conns: map[net.Conn]bool{},
		count: map[string]int{}, raw: map[string][]byte{}, doubt: map[string]bool{},
	}
	s.done.Go(s.accept)
	return s, nil
}

// Close hangs up on everybody and waits.
func (s *Sink) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
	return err
}

// Counts are the mails that were accepted, by Message-ID.
func (s *Sink) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.count)
}

// Raw is a mail with a Message-ID, of the first 1,000 that came.
func (s *Sink) Raw(id string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw[id]
}

// Total is how many mails were accepted.
func (s *Sink) Total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Doubtful says whether a mail was the last on a connection that ended without a goodbye: its sender may not know that it was
// accepted.
func (s *Sink) Doubtful(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubt[id]
}

// MostConnections is how many there ever were at a time.
func (s *Sink) MostConnections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func (s *Sink) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			_ = c.Close()
		} else {
			s.conns[c] = true
			s.most = max(s.most, len(s.conns))
			s.done.Go(func() { s.serve(c) })
		}
		s.mu.Unlock()
	}
}

// errBye ends a connection in good order.
var errBye = errors.New("bye")

func (s *Sink) serve(c net.Conn) {
	t := &talk{sink: s, r: bufio.NewReader(c), w: bufio.NewWriter(c)}
	err := t.run()
	s.mu.Lock()
	if !errors.Is(err, errBye) && t.last != "" {
		s.doubt[t.last] = true
	}
	delete(s.conns, c)
	s.mu.Unlock()
	_ = c.Close()
}

// talk is one connection.
type talk struct {
	sink *Sink
	r    *bufio.Reader
	w    *bufio.Writer
	from bool
	rcpt string
	last string // Message-ID of the last mail
}

var errCut = errors.New("cut")

// ask asks what to do; false says that the answer was given.
func (t *talk) ask(s Stage) (goOn bool, err error) {
	switch code := t.sink.decide(s, t.rcpt); code {
	case 0:
		return true, nil
	case Cut:
		return false, errCut
	case 421:
		_ = t.say("421 4.3.2 closing")
		return false, errors.Join(t.w.Flush(), errCut)
	default:
		return false, t.say(fmt.Sprintf("%d %d.0.0 told to", code, code/100))
	}
}

// say answers; answers to commands that came together go out together.
func (t *talk) say(line string) error {
	if _, err := t.w.WriteString(line + "\r\n"); err != nil {
		return err
	}
	if t.r.Buffered() > 0 {
		return nil
	}
	return t.w.Flush()
}

func (t *talk) run() error {
	goOn, err := t.ask(Connect)
	if err != nil || !goOn {
		return err
	}
	if err := t.say("220 sink ESMTP"); err != nil {
		return err
	}
	for {
		line, err := t.r.ReadString('\n')
		if err != nil {
			return err
		}
		verb, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if err := t.command(strings.ToUpper(verb), rest); err != nil {
			return err
		}
	}
}

func (t *talk) command(verb, rest string) error {
	switch verb {
	case "EHLO":
		return t.say("250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES")
	case "HELO", "NOOP":
		return t.say("250 2.0.0 ok")
	case "RSET":
		t.from, t.rcpt = false, ""
		return t.say("250 2.0.0 ok")
	case "QUIT":
		_ = t.say("221 2.0.0 bye")
		return errBye
	case "MAIL":
		return t.mail()
	case "RCPT":
		return t.recipient(rest)
	case "DATA":
		return t.data()
	}
	return t.say("500 5.5.1 what")
}

func (t *talk) mail() error {
	if t.from {
		return t.say("503 5.5.1 another mail is under way")
	}
	goOn, err := t.ask(Mail)
	if err != nil || !goOn {
		return err
	}
	t.from = true
	return t.say("250 2.1.0 ok")
}

func (t *talk) recipient(rest string) error {
	if !t.from || t.rcpt != "" {
		return t.say("503 5.5.1 not now")
	}
	_, address, _ := strings.Cut(rest, "<")
	t.rcpt, _, _ = strings.Cut(address, ">")
	goOn, err := t.ask(Rcpt)
	if !goOn {
		t.rcpt = ""
	}
	if err != nil || !goOn {
		return err
	}
	return t.say("250 2.1.5 ok")
}

func (t *talk) data() error {
	if t.rcpt == "" {
		return t.say("503 5.5.1 no recipient")
	}
	goOn, err := t.ask(Data)
	if err != nil || !goOn {
		return err
	}
	if err := t.say("354 go"); err != nil {
		return err
	}
	raw, err := io.ReadAll(textproto.NewReader(t.r).DotReader())
	if err != nil {
		return err
	}
	goOn, err = t.ask(Content)
	if err == nil && goOn {
		t.keep(raw)
		if goOn, err = t.ask(Accepted); err == nil && goOn {
			err = t.say("250 2.0.0 taken")
		}
	}
	t.from, t.rcpt = false, ""
	return err
}

func (t *talk) keep(raw []byte) {
	t.last = MessageID(raw)
	s := t.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[t.last]++
	s.total++
	if len(s.raw) < keptRaw {
		s.raw[t.last] = raw
	}
}

// keptRaw is how many mails are kept whole.
const keptRaw = 1000

// MessageID is that of a mail, without its brackets; "" for none. Headers may be folded.
func MessageID(raw []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(raw)) // a long header is folded
	if err != nil {
		return ""
	}
	return strings.Trim(m.Header.Get("Message-ID"), "<>")
}
