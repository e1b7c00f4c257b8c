package views

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

// salt is the key of the gates' hashes, for one UTC day, as this process last read it.
type salt struct {
	hour time.Time // in which it was read
	key  []byte
}

// saltLife is how long a day's salt stays in Redis, from its first use.
const saltLife = 25 * time.Hour

// saltKey holds the salt of a UTC day. It is one key for all shards, asked once per process and hour.
func saltKey(day time.Time) string { return "view:salt:" + day.Format(time.DateOnly) }

// saltAt is the salt of the day that holds now, which is UTC. It is read anew in each hour: should Redis lose it, processes
// agree again by the next hour.
func (r *Recorder) saltAt(ctx context.Context, now time.Time) ([]byte, error) {
	hour := now.Truncate(time.Hour)
	r.mu.Lock()
	held := r.salt
	r.mu.Unlock()
	if held.hour.Equal(hour) {
		return held.key, nil
	}
	fresh := make([]byte, 32)
	_, _ = rand.Read(fresh) // never fails: the runtime ends the process instead
	pipe := r.rdb.Pipeline()
	pipe.SetNX(ctx, saltKey(now), fresh, saltLife)
	key := pipe.Get(ctx, saltKey(now))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read salt: %w", err)
	}
	b, err := key.Bytes()
	if err != nil {
		return nil, fmt.Errorf("read salt: %w", err)
	}
	r.mu.Lock()
	r.salt = salt{hour: hour, key: b}
	r.mu.Unlock()
	return b, nil
}
