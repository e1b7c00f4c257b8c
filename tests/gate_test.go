package tests

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// gate is the way to a server, which a test can close: the server lives on, and cannot be reached.
type gate struct {
	t                 *testing.T
	address, upstream string
	running           sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	swallows bool
}

// newGate makes an open gate that ends with the test, and returns rawURL by way of it.
func newGate(t *testing.T, rawURL string) (*gate, string) {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	g := &gate{t: t, address: "127.0.0.1:0", upstream: u.Host, conns: map[net.Conn]bool{}}
	g.listen()
	t.Cleanup(func() {
		g.refuse()
		g.running.Wait()
	})
	u.Host = g.address
	return g, u.String()
}

func (g *gate) listen() {
	l, err := net.Listen("tcp", g.address)
	require.NoError(g.t, err)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listener, g.address = l, l.Addr().String()
	g.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", g.upstream)
			if err != nil {
				_ = client.Close()
				continue
			}
			g.mu.Lock()
			g.conns[client], g.conns[server] = true, true
			g.mu.Unlock()
			g.running.Go(func() { g.pass(client, server) })
			g.running.Go(func() { g.pass(server, client) })
		}
	})
}

func (g *gate) pass(from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, from)
		delete(g.conns, to)
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		g.mu.Lock()
		swallows := g.swallows
		g.mu.Unlock()
		if swallows {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// refuse ends all connections and takes no new ones.
func (g *gate) refuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.listener.Close()
	g.closeAll()
}

// closeAll ends all connections. The lock is held.
func (g *gate) closeAll() {
	for conn := range g.conns {
		_ = conn.Close()
	}
}

// swallow lets connections stand, and takes new ones, but nothing that is sent arrives.
func (g *gate) swallow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.swallows = true
}

// open ends what a closed gate did. Connections that lost what was sent on them end.
func (g *gate) open() {
	g.mu.Lock()
	swallowed := g.swallows
	g.swallows = false
	if swallowed {
		g.closeAll()
	}
	g.mu.Unlock()
	if !swallowed {
		g.listen()
	}
}
