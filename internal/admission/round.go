package admission

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/lastseen"
)

// round is one round trip to Redis. redis_rate, which cannot be pipelined, takes it for its client; when it calls its
// script, the script goes out in one pipeline with everything else that is to be asked. A round is used once.
//
// Scripts that are run by their digest fail with NOSCRIPT on a server that does not know them yet; redis_rate then sends
// the source, which loads it, through Eval. That one is the embedded client's: what rode along has its answer already.
type round struct {
	redis.UniversalClient
	keys   []string        // asked along; all in the hash slot of the script's key
	cached *redis.SliceCmd // their values, once the round was made
	seen   *lastseen.Seen  // notes the user as seen along with it; may be nil
	touch  lastseen.Touch
	noted  *redis.Cmd
}

// queue adds what is asked besides the limit. A further command per request belongs here: one that must only take
// effect for the token's owner has to compare the cached hash by itself, because nobody is authenticated yet.
func (r *round) queue(ctx context.Context, pipe redis.Pipeliner) {
	if len(r.keys) > 0 {
		r.cached = pipe.MGet(ctx, r.keys...)
		if r.seen != nil {
			r.noted = r.seen.Queue(ctx, pipe, r.touch)
		}
	}
}

// touchAgain makes up for a touch that the server did not know the script for, and says what else was wrong with it.
func (r *round) touchAgain(ctx context.Context) error {
	if r.noted == nil || r.noted.Err() == nil {
		return nil
	}
	if redis.HasErrorPrefix(r.noted.Err(), "NOSCRIPT") {
		return r.seen.Again(ctx, r.noted, r.touch)
	}
	return r.noted.Err()
}

// EvalSha sends the script with everything else. Each command keeps its own error, the script's is redis_rate's to see.
func (r *round) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	pipe := r.Pipeline()
	r.queue(ctx, pipe)
	script := pipe.EvalSha(ctx, sha1, keys, args...)
	_, _ = pipe.Exec(ctx)
	return script
}

// withoutLimit makes the round when there is no limit to ask.
func (r *round) withoutLimit(ctx context.Context) {
	pipe := r.Pipeline()
	r.queue(ctx, pipe)
	_, _ = pipe.Exec(ctx)
}
