package lastseen

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/writebehind"
)

// Name is the buffer's name.
const Name = "seen"

// markerLife is the least time between two touches of a user.
const markerLife = 5 * time.Minute

//go:embed lua/touch.lua
var touchLua string

var touchScript = redis.NewScript(touchLua)

// How long a reader waits for Redis, and leaves it alone after it failed: what it wants is nice to have.
const (
	readTimeout = 100 * time.Millisecond
	readPause   = 2 * time.Second
)

// Seen notes and reads when users were last seen. It is safe for concurrent use.
type Seen struct {
	db     dbsqlc.DBTX
	rdb    redis.UniversalClient
	shards redisconn.Shards
	clock  clock.Clock
	guard  *redisconn.Guard
}

// New makes a Seen.
func New(db dbsqlc.DBTX, rdb redis.UniversalClient, c clock.Clock) *Seen {
	return &Seen{
		db: db, rdb: rdb, shards: redisconn.ShardsOf(rdb), clock: c,
		guard: redisconn.NewGuard("last seen", readTimeout, readPause),
	}
}

// markerKey holds nothing. While it lives, its user is not noted again.
func markerKey(n redisconn.Shards, userID uuid.UUID) string {
	return "seen:" + n.Tag(userID) + ":" + userID.String()
}

func (s *Seen) buffer(userID uuid.UUID) writebehind.Keys {
	return writebehind.KeysOf(Name, s.shards.Of(userID))
}

// Touch is what a touch is decided by: keys of the user's shard, and the token's hash.
type Touch struct {
	User    uuid.UUID
	AuthKey string // holds the cached hash of the user's token
	ModeKey string // holds the cached mode
	Hash    []byte // of the token that was presented; nil when it was found good elsewhere
}

// Queue adds a touch to a pipeline. The server may not know the script yet: see Again.
func (s *Seen) Queue(ctx context.Context, pipe redis.Pipeliner, t Touch) *redis.Cmd {
	return touchScript.EvalSha(ctx, pipe, s.keys(t), s.args(t)...)
}

// Again sends the script itself for a queued touch that the server did not know it for. That happens once per server.
func (s *Seen) Again(ctx context.Context, queued *redis.Cmd, t Touch) error {
	if queued == nil || !redis.HasErrorPrefix(queued.Err(), "NOSCRIPT") {
		return nil
	}
	if err := touchScript.Eval(ctx, s.rdb, s.keys(t), s.args(t)...).Err(); err != nil {
		return fmt.Errorf("note user as seen: %w", err)
	}
	return nil
}

func (s *Seen) keys(t Touch) []string {
	return []string{t.AuthKey, t.ModeKey, markerKey(s.shards, t.User), s.buffer(t.User).Buf}
}

func (s *Seen) args(t Touch) []any {
	return []any{t.Hash, t.User.String(), s.clock.Now().UnixMilli(), int(markerLife.Seconds())}
}

// At is when the user was last seen, UTC, or nil when that is not known: the later of what Redis and Postgres hold, which
// differ either way when the clocks of two processes do. When Redis does not answer, what is in Postgres is the answer.
func (s *Seen) At(ctx context.Context, userID uuid.UUID) (*time.Time, error) {
	pending := s.pending(ctx, userID)
	at, err := dbsqlc.New().SeenGet(ctx, s.db, userID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("read last seen: %w", err)
	}
	if at == nil || pending != nil && pending.After(*at) {
		return pending, nil
	}
	utc := at.UTC()
	return &utc, nil
}

// pending is the newest value that Redis holds.
func (s *Seen) pending(ctx context.Context, userID uuid.UUID) *time.Time {
	k, field := s.buffer(userID), userID.String()
	var newest int64
	// A failure leaves the reader with Postgres.
	_ = s.guard.Do(ctx, func(ctx context.Context) error {
		pipe := s.rdb.Pipeline()
		held := []*redis.StringCmd{pipe.HGet(ctx, k.Buf, field), pipe.HGet(ctx, k.Proc, field)}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		for _, cmd := range held {
			if ms, err := strconv.ParseInt(cmd.Val(), 10, 64); err == nil {
				newest = max(newest, ms)
			}
		}
		return nil
	})
	if newest == 0 {
		return nil
	}
	at := time.UnixMilli(newest).UTC()
	return &at
}

// Forget takes a user out of Redis: for whoever deletes the user or changes to off, after the commit. Marker, buffer and
// batch go; a flusher that holds the batch in memory writes nothing, since the row is gone or keeps nothing.
func (s *Seen) Forget(ctx context.Context, userID uuid.UUID) error {
	k, field := s.buffer(userID), userID.String()
	pipe := s.rdb.Pipeline()
	pipe.Del(ctx, markerKey(s.shards, userID))
	pipe.HDel(ctx, k.Buf, field)
	pipe.HDel(ctx, k.Proc, field)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("forget when a user was seen: %w", err)
	}
	return nil
}
