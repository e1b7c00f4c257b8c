// Package health asks the service's dependencies whether they are there and set up so that nothing is lost.
package health

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Redis checks a Redis server, or every master of a Redis Cluster. It is safe for concurrent use.
type Redis struct {
	rdb redis.UniversalClient
}

// NewRedis makes a check of what rdb is connected to.
func NewRedis(rdb redis.UniversalClient) *Redis { return &Redis{rdb: rdb} }

// Check asks each master one question: an error means that one of them gave no good answer within ctx. warnings name
// the settings under which Redis may drop or lose what is only there (buffered counts): another eviction policy than
// noeviction, and no append-only file. Boards can be rebuilt, so warnings are no reason to stop serving.
//
// INFO is asked rather than CONFIG GET, because hosted servers often refuse the latter.
func (r *Redis) Check(ctx context.Context) (warnings []string, err error) {
	cluster, ok := r.rdb.(*redis.ClusterClient)
	if !ok {
		return checkNode(ctx, r.rdb)
	}
	var mu sync.Mutex // masters are asked in parallel
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		found, err := checkNode(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, found...)
		return err
	})
	slices.Sort(warnings)
	return slices.Compact(warnings), err
}

func checkNode(ctx context.Context, node redis.Cmdable) ([]string, error) {
	// Several sections in one INFO need Redis 7.
	info, err := node.Info(ctx, "memory", "persistence").Result()
	if err != nil {
		return nil, fmt.Errorf("ask Redis for its settings: %w", err)
	}
	return settingsWarnings(info), nil
}

// settingsWarnings judges the text that INFO answers. A setting that the server does not tell is not warned about.
func settingsWarnings(info string) []string {
	var warnings []string
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		switch key, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":"); {
		case key == "maxmemory_policy" && value != "noeviction":
			warnings = append(warnings, "redis: maxmemory-policy is "+value+", want noeviction")
		case key == "aof_enabled" && value != "1":
			warnings = append(warnings, "redis: appendonly is off, want yes")
		}
	}
	return warnings
}
