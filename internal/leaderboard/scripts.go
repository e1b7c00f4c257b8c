package leaderboard

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/mark.lua
var markLua string

//go:embed lua/publish.lua
var publishLua string

//go:embed lua/page.lua
var pageLua string

//go:embed lua/ranks.lua
var ranksLua string

//go:embed lua/state.lua
var stateLua string

//go:embed lua/now.lua
var nowLua string

//go:embed lua/begin.lua
var beginLua string

//go:embed lua/fill.lua
var fillLua string

//go:embed lua/swap.lua
var swapLua string

//go:embed lua/discard.lua
var discardLua string

// The scripts that ask for the mark get the function that reads it put before them.
var (
	publishScript = redis.NewScript(markLua + publishLua)
	pageScript    = redis.NewScript(markLua + pageLua)
	ranksScript   = redis.NewScript(markLua + ranksLua)
	stateScript   = redis.NewScript(markLua + stateLua)
	nowScript     = redis.NewScript(nowLua)
	beginScript   = redis.NewScript(markLua + beginLua)
	fillScript    = redis.NewScript(markLua + fillLua)
	swapScript    = redis.NewScript(markLua + swapLua)
	discardScript = redis.NewScript(discardLua)
)

// call is one run of a script.
type call struct {
	keys []string
	args []any
}

// runMany runs a script for many boards in one round trip and returns one command per call, each with its own result or
// error: a board whose key is broken does not stop the others. EVALSHA in a pipeline has no fallback, so the calls that
// a server did not know the script for are run again after it was loaded.
func runMany(ctx context.Context, rdb redis.UniversalClient, script *redis.Script, calls []call) ([]*redis.Cmd, error) {
	all := make([]int, len(calls))
	for i := range all {
		all[i] = i
	}
	cmds := make([]*redis.Cmd, len(calls))
	runSome(ctx, rdb, script, calls, cmds, all)
	var unknown []int
	for i, cmd := range cmds {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return cmds, nil
	}
	if err := script.Load(ctx, rdb).Err(); err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	runSome(ctx, rdb, script, calls, cmds, unknown)
	return cmds, nil
}

func runSome(ctx context.Context, rdb redis.UniversalClient, script *redis.Script, calls []call, cmds []*redis.Cmd, which []int) {
	pipe := rdb.Pipeline()
	for _, i := range which {
		cmds[i] = script.EvalSha(ctx, pipe, calls[i].keys, calls[i].args...)
	}
	_, err := pipe.Exec(ctx)
	if err == nil || isReply(err) {
		return // it is the first command's that failed; the caller looks at each
	}
	for _, i := range which { // without a connection the client leaves the commands as they were
		if cmds[i].Err() == nil && cmds[i].Val() == nil {
			cmds[i].SetErr(err)
		}
	}
}

// runBoth runs two scripts in one round trip, with each its own result or error. Where a server did not know one of them, both
// are run again: they are for reading.
func runBoth(ctx context.Context, rdb redis.UniversalClient, a *redis.Script, callA call, b *redis.Script, callB call) (cmdA, cmdB *redis.Cmd, err error) {
	pipe := rdb.Pipeline()
	cmdA, cmdB = a.EvalSha(ctx, pipe, callA.keys, callA.args...), b.EvalSha(ctx, pipe, callB.keys, callB.args...)
	_, err = pipe.Exec(ctx)
	switch {
	case redis.HasErrorPrefix(cmdA.Err(), "NOSCRIPT"), redis.HasErrorPrefix(cmdB.Err(), "NOSCRIPT"):
		return a.Run(ctx, rdb, callA.keys, callA.args...), b.Run(ctx, rdb, callB.keys, callB.args...), nil
	case err != nil && !isReply(err):
		return nil, nil, err // Redis did not answer
	}
	return cmdA, cmdB, nil
}

// errAnswer is an answer that the script at hand does not give.
var errAnswer = errors.New("unexpected answer of a script")

// list is the answer of a script that returns a table.
func list(cmd *redis.Cmd, atLeast int) ([]any, error) {
	values, err := cmd.Slice()
	if err != nil {
		return nil, err
	}
	if len(values) < atLeast {
		return nil, errAnswer
	}
	return values, nil
}

// integers are values that must all be integers.
func integers(values []any) ([]int64, error) {
	numbers := make([]int64, len(values))
	for i, v := range values {
		n, ok := v.(int64)
		if !ok {
			return nil, errAnswer
		}
		numbers[i] = n
	}
	return numbers, nil
}

// isReply says whether err is an error that Redis itself answered with, so that the server is there.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// answered says whether Redis is there and serves keys: neither is so of a server that is loading its data, or of a cluster
// without a master.
func answered(err error) bool {
	return isReply(err) && !redis.IsLoadingError(err) && !redis.IsClusterDownError(err) && !redis.IsMasterDownError(err) &&
		!redis.IsMaxClientsError(err)
}
