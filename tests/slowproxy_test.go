package tests

import (
	framing "encoding/binary"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
)

// slowProxy stands between a process and a server and holds back what the process sends, each burst for another time.
type slowProxy struct {
	t   *testing.T
	max time.Duration // longest delay of a burst
	// split also divides bursts to Postgres between two messages, so that time passes between the statements of a
	// pipeline, which else arrive together.
	split bool
	// stall is how long one of stallOneIn bursts is held back instead.
	stall      time.Duration
	stallOneIn int
	// stallAnswer does the same to one of stallOneIn answers.
	stallAnswer time.Duration

	upstream string
	open     sync.WaitGroup
	mu       sync.Mutex
	closed   bool
	conns    []net.Conn
}

// through is rawURL by way of the proxy, which ends with the test.
func (p *slowProxy) through(rawURL string) string {
	p.t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(p.t, err)
	p.upstream = u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	p.t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.closed = true
		for _, conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		p.open.Wait()
	})
	p.open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.open.Go(func() { p.serve(client) })
		}
	})
	u.Host = l.Addr().String()
	return u.String()
}

func (p *slowProxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.keep(client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.requests(client, server) })
	both.Go(func() {
		defer func() { _ = client.Close() }()
		buf := make([]byte, 64<<10)
		for answers := 0; ; answers++ {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if p.stallAnswer > 0 && answers > handshake && rand.IntN(p.stallOneIn) == 0 {
				_ = clock.Sleep(p.t.Context(), p.stallAnswer)
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	both.Wait()
}

// keep notes the connections so that the end of the test can end them.
func (p *slowProxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	p.conns = append(p.conns, conns...)
	return true
}

func (p *slowProxy) requests(client, server net.Conn) {
	defer func() { _ = server.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		p.pause()
		first := 0
		if bounds := messages(buf[:n]); p.split && len(bounds) > 1 && rand.IntN(2) == 0 {
			first = bounds[rand.IntN(len(bounds)-1)]
			if _, err := server.Write(buf[:first]); err != nil {
				return
			}
			p.pause()
		}
		if _, err := server.Write(buf[first:n]); err != nil {
			return
		}
	}
}

// handshake is more answers than it takes to open a connection.
const handshake = 8

func (p *slowProxy) pause() {
	d := time.Duration(rand.Int64N(int64(p.max) + 1))
	if p.stall > 0 && rand.IntN(p.stallOneIn) == 0 {
		d = p.stall
	}
	_ = clock.Sleep(p.t.Context(), d)
}

// messages are the ends of the messages of Postgres's protocol in a burst; none when it is not made of whole ones.
func messages(burst []byte) (ends []int) {
	for at := 0; at < len(burst); {
		if burst[at] == 0 || at+5 > len(burst) { // what opens a connection has no type
			return nil
		}
		at += 1 + int(framing.BigEndian.Uint32(burst[at+1:]))
		if at > len(burst) {
			return nil
		}
		ends = append(ends, at)
	}
	return ends
}
