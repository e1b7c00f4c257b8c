package tests

import (
	"net"
	"net/url"
	"sync"

	"github.com/stretchr/testify/require"
)

// crashPoint kills a process at one of its round trips to Postgres or Redis, or stops it for a while. The process reaches
// both through proxies that count what it sends: each burst of bytes is one round trip.
type crashPoint struct {
	at    int  // which round trip, from 1
	after bool // once its answer has come, and before the process sees it; otherwise before it is sent
	kill  func()
	// resume makes it a stop: what was held back at the point goes on when resume is closed.
	resume chan struct{}
	// onceServing is at, counted from when a server serves.
	onceServing int

	mu    sync.Mutex
	trips int
	fired bool
	conns []net.Conn
}

// sent counts a burst that the process sent, and says whether it may go on to the server, and whether its answer is the
// process's end.
func (c *crashPoint) sent() (forward, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fired {
		return c.resume != nil, false
	}
	c.trips++
	if c.trips != c.at {
		return true, false
	}
	if c.after {
		return true, true
	}
	c.fire()
	return c.resume != nil, false
}

func (c *crashPoint) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fire()
}

// hold keeps a burst back while the process is stopped: what it sent before must not overtake what others do meanwhile.
func (c *crashPoint) hold() {
	c.mu.Lock()
	stopped := c.fired && c.resume != nil
	c.mu.Unlock()
	if stopped {
		<-c.resume
	}
}

// fire kills the process and cuts its connections off, as the end of a host would. The lock is held.
func (c *crashPoint) fire() {
	c.fired = true
	c.kill()
	if c.resume != nil {
		return
	}
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// proxyOwner is a test, or a part of one that ends by itself.
type proxyOwner interface {
	require.TestingT
	Helper()
	Cleanup(fn func())
}

// through is rawURL by way of a proxy that ends with its owner.
func (c *crashPoint) through(t proxyOwner, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	upstream := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		open.Wait()
	})
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", upstream)
			if err != nil {
				_ = client.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, client, server)
			c.mu.Unlock()
			p := &proxied{crash: c, client: client, server: server}
			open.Go(p.requests)
			open.Go(p.answers)
		}
	})
	u.Host = l.Addr().String()
	return u.String()
}

// proxied is one connection through a proxy.
type proxied struct {
	crash          *crashPoint
	client, server net.Conn

	mu   sync.Mutex
	last bool // the next answer is the process's end
}

func (p *proxied) requests() {
	defer func() { _ = p.server.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := p.client.Read(buf)
		if err != nil {
			return
		}
		forward, last := p.crash.sent()
		if !forward {
			return
		}
		if last {
			p.mu.Lock()
			p.last = true
			p.mu.Unlock()
		}
		p.crash.hold()
		if _, err := p.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxied) answers() {
	defer func() { _ = p.client.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := p.server.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		last := p.last
		p.mu.Unlock()
		if last {
			p.crash.answered()
			if p.crash.resume == nil {
				return
			}
			p.mu.Lock()
			p.last = false
			p.mu.Unlock()
		}
		p.crash.hold()
		if _, err := p.client.Write(buf[:n]); err != nil {
			return
		}
	}
}
