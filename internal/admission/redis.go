package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/privacy"
)

// reply is what Redis knew. The zero reply is that of a Redis that could not be asked.
type reply struct {
	known      bool   // Redis said what it has of the user, be it nothing
	hash       []byte // the cached hash of the user's token; nil when there is none
	mode       privacy.Entry
	limit      LimitState
	limitKnown bool
}

// askUser asks everything that a request needs to know of its user. It never fails: what is not known stays zero.
func (a *Admitter) askUser(ctx context.Context, id uuid.UUID, h Hash, scope Scope, perHour int) reply {
	rd := &round{UniversalClient: a.deps.Redis, keys: []string{authKey(a.shards, id), privacy.Key(a.shards, id)}, seen: a.deps.Seen}
	rd.touch = a.touch(id, h[:])
	r, err := a.try(ctx, StepAsk, a.askTimeout(), func(ctx context.Context) (reply, error) {
		r, limitErr := a.askLimit(ctx, rd, userLimitKey(a.shards, id, h, scope), perHour)
		if err := r.readCached(rd.cached); err != nil {
			return reply{}, err
		}
		// Redis may answer and yet not write, because it is full: what it knew of the user counts all the same.
		a.noteFailure(ctx, StepLimit, limitErr)
		if h.equal(r.hash) {
			a.noteFailure(ctx, StepSeen, rd.touchAgain(ctx))
		}
		return r, nil
	})
	if err != nil {
		return reply{limitKnown: perHour == 0}
	}
	return r
}

// limitAddr counts a request, or a failure, against an address.
func (a *Admitter) limitAddr(ctx context.Context, scope Scope, addr netip.Addr, perHour int, timeout time.Duration) LimitState {
	if perHour == 0 {
		return LimitState{}
	}
	key := addrLimitKey(addr, scope)
	r, err := a.try(ctx, StepLimit, timeout, func(ctx context.Context) (reply, error) {
		return a.askLimit(ctx, &round{UniversalClient: a.deps.Redis}, key, perHour)
	})
	if err != nil {
		return a.limitLocally(a.localAddrs, key, perHour)
	}
	return r.limit
}

// askLimit makes the round trip: it takes one of perHour requests, and asks what rides along even when there is no limit.
func (a *Admitter) askLimit(ctx context.Context, rd *round, key string, perHour int) (reply, error) {
	if perHour == 0 {
		rd.withoutLimit(ctx)
		return reply{limitKnown: true}, nil
	}
	res, err := redis_rate.NewLimiter(rd).Allow(ctx, key, redis_rate.PerHour(perHour))
	if err != nil {
		return reply{}, fmt.Errorf("ask rate limit: %w", err)
	}
	return reply{limit: fromRedis(perHour, res, a.deps.Clock.Now()), limitKnown: true}, nil
}

// readCached takes in the cached hash and mode, in the order in which they were asked.
func (r *reply) readCached(cmd *redis.SliceCmd) error {
	values, err := cmd.Result()
	if err != nil {
		return fmt.Errorf("ask cached user: %w", err)
	}
	if hash, ok := values[0].(string); ok {
		r.hash = []byte(hash)
	}
	if mode, ok := values[1].(string); ok {
		r.mode, _ = privacy.Parse(mode)
	}
	r.known = true
	return nil
}

// fill caches what Postgres said of a good token. The request is decided by now: a failure only sends the next one the
// same way. The hash replaces whatever is there, since it was just confirmed; the mode is filled only if there is none.
func (a *Admitter) fill(ctx context.Context, id uuid.UUID, h Hash, e privacy.Entry, readAt time.Time) {
	_, _ = a.try(ctx, StepFill, a.afterTimeout(), func(ctx context.Context) (reply, error) {
		pipe := a.deps.Redis.Pipeline()
		pipe.Set(ctx, authKey(a.shards, id), h[:], a.cfg.AuthTTL)
		a.deps.Modes.QueueFill(ctx, pipe, id, e, readAt)
		return reply{}, a.execAndTouch(ctx, pipe, a.touch(id, h[:]))
	})
}

// touch is what notes the user as seen, if the hash is that of the user's token. nil stands for a token that is known to be
// good.
func (a *Admitter) touch(id uuid.UUID, hash []byte) lastseen.Touch {
	return lastseen.Touch{User: id, AuthKey: authKey(a.shards, id), ModeKey: privacy.Key(a.shards, id), Hash: hash}
}

// execAndTouch sends a pipeline that fills the user's caches, and with it the touch that was not made without them.
func (a *Admitter) execAndTouch(ctx context.Context, pipe redis.Pipeliner, t lastseen.Touch) error {
	if a.deps.Seen == nil {
		_, err := pipe.Exec(ctx)
		return err
	}
	filled := pipe.Len()
	queued := a.deps.Seen.Queue(ctx, pipe, t)
	cmds, err := pipe.Exec(ctx)
	if err != nil && filled < len(cmds) && redis.HasErrorPrefix(cmds[filled].Err(), "NOSCRIPT") {
		err = nil
		for _, cmd := range cmds[:filled] {
			err = cmp.Or(err, cmd.Err())
		}
	}
	return errors.Join(err, a.deps.Seen.Again(ctx, queued, t))
}

// FillMode caches the mode that a storing transaction read at readAt, for a request that found none. A mode lives shorter
// than a token, so most modes are filled here, where Postgres was asked anyway.
func (a *Admitter) FillMode(ctx context.Context, id uuid.UUID, e privacy.Entry, readAt time.Time) {
	_, _ = a.try(ctx, StepFill, a.afterTimeout(), func(ctx context.Context) (reply, error) {
		pipe := a.deps.Redis.Pipeline()
		a.deps.Modes.QueueFill(ctx, pipe, id, e, readAt)
		return reply{}, a.execAndTouch(ctx, pipe, a.touch(id, nil))
	})
}

// Forget takes a user's token out of the cache: for whoever deletes the user or issues another token, after the commit.
func (a *Admitter) Forget(ctx context.Context, userID uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.RedisTimeout)
	defer cancel()
	if err := a.deps.Redis.Del(ctx, authKey(a.shards, userID)).Err(); err != nil {
		return fmt.Errorf("forget cached token: %w", err)
	}
	return nil
}
