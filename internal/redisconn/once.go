package redisconn

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// once is a command that the client does not send again by itself.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// RunOnce runs a script that must not run twice for one call. Otherwise the client sends what it saw no answer to again, though
// the server may have done it. After an error it may have run, or not. One that the server does not know has not.
func RunOnce(ctx context.Context, rdb redis.UniversalClient, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	cmd := evalOnce(ctx, rdb, script, keys, args)
	if !redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		return cmd
	}
	if err := script.Load(ctx, rdb).Err(); err != nil {
		cmd.SetErr(err)
		return cmd
	}
	return evalOnce(ctx, rdb, script, keys, args)
}

func evalOnce(ctx context.Context, rdb redis.UniversalClient, script *redis.Script, keys []string, args []any) *redis.Cmd {
	parts := append(make([]any, 0, 3+len(keys)+len(args)), "evalsha", script.Hash(), len(keys))
	for _, k := range keys {
		parts = append(parts, k)
	}
	cmd := redis.NewCmd(ctx, append(parts, args...)...)
	cmd.SetFirstKeyPos(3)
	_ = rdb.Process(ctx, once{cmd}) // the command holds it
	return cmd
}
