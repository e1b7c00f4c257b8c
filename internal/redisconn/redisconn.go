// Package redisconn opens Redis: one server, or a cluster.
package redisconn

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// How long one step may take. Whoever asks Redis also has a deadline of its own, which is shorter where a client waits.
const (
	dialTimeout = 500 * time.Millisecond
	ioTimeout   = 3 * time.Second
	poolTimeout = 500 * time.Millisecond
	// clusterReload is how soon a client learns that a slot has moved or a master was replaced. The library's default of
	// several seconds makes a fail-over last a minute.
	clusterReload = time.Second
)

// noMaintNotifications saves each new connection a handshake that only one vendor's servers understand.
var noMaintNotifications = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

func init() {
	// The library's own logger writes dial failures to standard error, one a try. Whoever asks Redis reports what failed.
	redis.SetLogger(silent{})
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Open makes a client for the Redis at rawURL and checks that it answers. A URL that names further nodes, as in
// redis://host1:7000?addr=host2:7000, is a cluster's.
func Open(ctx context.Context, rawURL string) (redis.UniversalClient, error) {
	c, err := New(rawURL)
	if err != nil {
		return nil, err
	}
	if err := c.Ping(ctx).Err(); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("reach Redis: %w", err)
	}
	return c, nil
}

// New is Open without the check: the client connects when it is used.
func New(rawURL string) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The cause would quote the URL, which may hold a password.
		return nil, fmt.Errorf("parse Redis URL: want redis://user:password@host:port/db")
	}
	if u.Query().Has("addr") {
		o, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, fmt.Errorf("parse Redis URL: %w", err)
		}
		o.ContextTimeoutEnabled = true
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, ioTimeout, ioTimeout, poolTimeout
		o.DialerRetries = 1
		o.ClusterStateReloadInterval = clusterReload
		o.MaintNotificationsConfig = noMaintNotifications
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("parse Redis URL: %w", err)
	}
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, ioTimeout, ioTimeout, poolTimeout
	o.DialerRetries = 1
	o.MaintNotificationsConfig = noMaintNotifications
	return redis.NewClient(o), nil
}
