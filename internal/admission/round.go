package admission

import (
	"context"

	"github.com/redis/go-redis/v9"
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
}

// queue adds what is asked besides the limit. A further command per request belongs here: one that must only take
// effect for the token's owner has to compare the cached hash by itself, because nobody is authenticated yet.
func (r *round) queue(ctx context.Context, pipe redis.Pipeliner) {
	if len(r.keys) > 0 {
		r.cached = pipe.MGet(ctx, r.keys...)
	}
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
