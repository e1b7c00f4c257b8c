package views

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/writebehind"
)

// Name is the buffer's name.
const Name = "views"

//go:embed lua/view.lua
var viewLua string

var viewScript = redis.NewScript(viewLua)

// RecorderConfig bounds what a view may cost its request. Zero values mean the defaults.
type RecorderConfig struct {
	Timeout time.Duration // how long a request waits for its view to be counted; 250 ms
	Pause   time.Duration // for how long Redis is left alone after it failed; 2 s
}

func (c RecorderConfig) withDefaults() RecorderConfig {
	if c.Timeout <= 0 {
		c.Timeout = 250 * time.Millisecond
	}
	if c.Pause <= 0 {
		c.Pause = 2 * time.Second
	}
	return c
}

// gateSlack is how long a gate outlives its hour: as much as the clocks of two processes may differ.
const gateSlack = 5 * time.Minute

// Viewer is who looks: a user, or somebody without a token at an address and with an agent.
type Viewer struct {
	User  uuid.UUID // uuid.Nil for an anonymous one
	Addr  netip.Addr
	Agent string
}

// name is the viewer in one string. Nobody but the gate's hash sees it.
func (v Viewer) name() string {
	if v.User != uuid.Nil {
		return "user\x00" + v.User.String()
	}
	return "address\x00" + addrGroup(v.Addr) + "\x00" + v.Agent
}

// addrGroup is what counts as one address: an IPv4 address, or a /64 of IPv6, which is what one subscriber is given at least.
func addrGroup(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if p, err := a.Prefix(64); err == nil && a.Is6() {
		return p.String()
	}
	return a.String()
}

// Recorder counts views. It is safe for concurrent use.
type Recorder struct {
	rdb    redis.UniversalClient
	shards redisconn.Shards
	clock  clock.Clock
	log    *slog.Logger
	guard  *redisconn.Guard

	mu   sync.Mutex
	salt salt
}

// NewRecorder makes a Recorder.
func NewRecorder(rdb redis.UniversalClient, c clock.Clock, log *slog.Logger, cfg RecorderConfig) *Recorder {
	cfg = cfg.withDefaults()
	return &Recorder{
		rdb: rdb, shards: redisconn.ShardsOf(rdb), clock: c, log: log,
		guard: redisconn.NewGuard("views", cfg.Timeout, cfg.Pause),
	}
}

// Record counts a look at a page, and says whether it did: false for the owner, for who has looked in this hour already, and
// when Redis does not take it. It never fails and never waits long.
func (r *Recorder) Record(ctx context.Context, v Viewer, t Target) (recorded bool) {
	if v.User == t.Owner {
		return false
	}
	err := r.guard.Do(ctx, func(ctx context.Context) (err error) {
		recorded, err = r.record(ctx, v, t)
		return err
	})
	if err != nil && ctx.Err() == nil && !redisconn.LeftAlone(err) {
		r.log.WarnContext(ctx, "a view was not recorded", "err", err)
	}
	return recorded
}

func (r *Recorder) record(ctx context.Context, v Viewer, t Target) (bool, error) {
	now := r.clock.Now().UTC()
	key, err := r.saltAt(ctx, now)
	if err != nil {
		return false, err
	}
	shard := r.shards.Of(t.Owner)
	hour := now.Truncate(time.Hour)
	life := hour.Add(time.Hour + gateSlack).Sub(now)
	keys := []string{gateKey(shard, key, v, t, hour), writebehind.KeysOf(Name, shard).Buf}
	n, err := viewScript.Run(ctx, r.rdb, keys, t.field(calendar.DayOf(now)), int(life.Seconds())+1).Int()
	if err != nil {
		return false, fmt.Errorf("count view: %w", err)
	}
	return n == 1, nil
}

// gateKey names a viewer, a target and an hour to whoever has the salt, and to nobody else.
func gateKey(shard int, salt []byte, v Viewer, t Target, hour time.Time) string {
	mac := hmac.New(sha256.New, salt)
	for _, part := range []string{t.Owner.String(), t.page(), strconv.FormatInt(hour.Unix(), 10), v.name()} {
		_, _ = mac.Write([]byte(part)) // never fails
		_, _ = mac.Write([]byte{0})
	}
	return "view:" + redisconn.ShardTag(shard) + ":" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// Forget takes what has gathered for a user's pages out of Redis: for whoever deletes the user or changes to off, after the
// commit. A flusher that holds the batch in memory finds no row for it, or one that keeps nothing.
func (r *Recorder) Forget(ctx context.Context, userID uuid.UUID) error {
	k := writebehind.KeysOf(Name, r.shards.Of(userID))
	for _, key := range []string{k.Buf, k.Proc} {
		for cursor := uint64(0); ; {
			fields, next, err := r.rdb.HScan(ctx, key, cursor, userID.String()+":*", 2000).Result()
			if err != nil {
				return fmt.Errorf("look for a user's views: %w", err)
			}
			for i := 0; i+1 < len(fields); i += 2 {
				if err := r.rdb.HDel(ctx, key, fields[i]).Err(); err != nil {
					return fmt.Errorf("forget a user's views: %w", err)
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}
