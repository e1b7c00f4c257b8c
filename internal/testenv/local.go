package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/commma/commma/internal/localstack"
)

// local starts servers from the installed programs, as child processes of this test binary.
type local struct{}

func (local) postgres(ctx context.Context) (Server, error) {
	dir, err := serverDir()
	if err != nil {
		return nil, err
	}
	// The nil pointer of a failed start must not become a Server that is not nil.
	if p, err := localstack.StartPostgres(ctx, localstack.PostgresOptions{Dir: dir, Fast: true}); err != nil {
		return nil, err
	} else {
		return p, nil
	}
}

func (local) redis(ctx context.Context, durable bool) (Server, error) {
	dir, err := serverDir()
	if err != nil {
		return nil, err
	}
	if r, err := localstack.StartRedis(ctx, localstack.RedisOptions{Dir: dir, Fast: !durable}); err != nil {
		return nil, err
	} else {
		return r, nil
	}
}

// tempPrefix begins the names of the directories in which test binaries keep their servers.
const tempPrefix = "commma-test-"

// temp is a directory whose lock shows other test binaries that it is in use.
type temp struct {
	path string
	lock *localstack.Lock
}

// makeTemp makes a directory and takes its lock. Until then it has no lock file, which keeps others from removing it.
func makeTemp(base string) (temp, error) {
	path, err := os.MkdirTemp(base, tempPrefix)
	if err != nil {
		return temp{}, fmt.Errorf("make directory for servers: %w", err)
	}
	lock, err := localstack.TryLock(filepath.Join(path, "lock"))
	return temp{path, lock}, err
}

// tempDir is this binary's directory for servers, diskDir the one for those that must not be in memory.
var (
	tempDir = sync.OnceValues(func() (string, error) { return dirIn(serversBase()) })
	diskDir = sync.OnceValues(func() (string, error) { return dirIn(os.TempDir()) })
)

func dirIn(base string) (string, error) {
	removeAbandoned(base)
	t, err := makeTemp(base)
	if err != nil {
		return "", err
	}
	AtExit(func(context.Context) error { return errors.Join(os.RemoveAll(t.path), t.lock.Release()) })
	return t.path, nil
}

// memory is a file system in memory on Linux. Making a database there takes a fifth of the time, and most of what a test
// of ours costs is its database.
const memory = "/dev/shm"

// memoryNeeded is what must be free there, in bytes: far more than the servers of a few test binaries use. In a
// container it is often 64 MiB in all.
const memoryNeeded = 2 << 30

// serversBase is where the servers' directories lie.
func serversBase() string {
	var fs syscall.Statfs_t
	if runtime.GOOS == "linux" && syscall.Statfs(memory, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= memoryNeeded {
		return memory
	}
	return os.TempDir()
}

// removeAbandoned removes the directories of test binaries that were killed. Their servers died with them.
func removeAbandoned(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, tempPrefix+"*")) // the pattern is well-formed
	for _, dir := range dirs {
		// One that has no lock file yet is being made at this moment.
		path := filepath.Join(dir, "lock")
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if lock, err := localstack.TryLock(path); err == nil {
			_ = os.RemoveAll(dir) // another user's, or gone already: not for us to care
			_ = lock.Release()
		}
	}
}

var serverCount atomic.Int64

// serverDir is a new directory for one server.
func serverDir() (string, error) {
	dir, err := tempDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, strconv.FormatInt(serverCount.Add(1), 10)), nil
}
