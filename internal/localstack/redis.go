package localstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisOptions of StartRedis. Only Dir is required.
type RedisOptions struct {
	Dir  string       // belongs to this server alone; made if missing
	Fast bool         // for tests: keeps nothing on disk, and has 4096 logical databases
	Log  *slog.Logger // debug lines about starts and stops; default: none
	// Settings are further server settings; they come last and so win.
	Settings map[string]string
}

// FastDatabases is the number of logical databases of a Redis started with Fast.
const FastDatabases = 4096

// Redis is a private server. Its methods are safe for concurrent use.
type Redis struct {
	server
	o    RedisOptions
	prog program
}

var redisSteps = []step{{syscall.SIGTERM, 15 * time.Second}}

// StartRedis starts a Redis (or Valkey) on its directory and waits until it serves. ctx bounds the start only. The
// caller must Stop it.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	prog, err := findRedis(ctx)
	if err != nil {
		return nil, err
	}
	h, err := openHome(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := h.makeData("data"); err != nil {
		return nil, err
	}
	if err := h.setTag(); err != nil {
		return nil, err
	}
	r := &Redis{o: o, prog: prog}
	r.server = server{name: "Redis", home: h, steps: redisSteps, log: orDiscard(o.Log), command: r.serverCommand, ready: r.ask}
	if r.state, err = h.loadState(true); err != nil {
		return nil, err
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// serverCommand is the server process. The password goes in through standard input, not the command line, which
// everybody may read.
func (r *Redis) serverCommand(port int) (*exec.Cmd, error) {
	cmd, path, err := r.home.command(syscall.SIGTERM, "data", r.prog.dir)
	if err != nil {
		return nil, err
	}
	cmd.Args = append(cmd.Args, "-", "--proc-title-template", r.home.tag+" {title} {listen-addr}")
	cmd.Stdin = strings.NewReader(r.config(path, port))
	return cmd, nil
}

// config is the server's configuration file.
func (r *Redis) config(dir string, port int) string {
	var b strings.Builder
	set := func(key, value string) { fmt.Fprintf(&b, "%s %s\n", key, strconv.Quote(value)) }
	set("bind", "127.0.0.1")
	set("port", strconv.Itoa(port))
	set("dir", dir)
	set("requirepass", r.state.Password)
	set("maxmemory-policy", "noeviction") // what is buffered here must not be evicted
	b.WriteString("save \"\"\n")
	if r.o.Fast {
		set("appendonly", "no")
		set("databases", strconv.Itoa(FastDatabases))
	} else {
		set("appendonly", "yes")
		set("aof-load-truncated", "yes") // the torn end of a log after a crash is dropped, not fatal
	}
	for key, value := range r.o.Settings {
		set(key, value)
	}
	return b.String()
}

// URL connects to logical database 0.
func (r *Redis) URL() string { return r.DatabaseURL(0) }

// DatabaseURL is the URL of another logical database of this server.
func (r *Redis) DatabaseURL(n int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := url.URL{
		Scheme: "redis", User: url.UserPassword("", r.state.Password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(r.state.Port)), Path: "/" + strconv.Itoa(n),
	}
	return u.String()
}

// ask checks that the server is up, has loaded its data, and is ours: another one may have been given the port.
func (r *Redis) ask(ctx context.Context) error {
	o, err := redis.ParseURL(r.URL())
	if err != nil {
		return err
	}
	// The client library writes a line to standard error for each server that it cannot reach: knock first.
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", o.Addr)
	if err != nil {
		return err
	}
	_ = conn.Close()
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	if err := c.Ping(ctx).Err(); err != nil {
		return err
	}
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "process_id:"+strconv.Itoa(r.current().pid())+"\r\n") {
		return errors.New("another server answers on its port")
	}
	return nil
}
