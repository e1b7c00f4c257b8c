package localstack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// removeSharedMemory removes the shared memory segment of a Postgres that was killed, which its pid file names. The next
// start on the directory would do so; but a test's directory has no next start, and a machine has room for 4096 segments.
// Nothing is lost when it is not possible, so there is no error.
func removeSharedMemory(data string) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return
	}
	var key uint32
	var id int
	if _, err := fmt.Sscan(lines[6], &key, &id); err != nil {
		return
	}
	// A process that is gone to all who look for it may still be about to give its memory back.
	for range detachTries {
		if removeUnused(id, key) {
			return
		}
		time.Sleep(detachPause)
	}
}

// Together a second.
const (
	detachTries = 100
	detachPause = 10 * time.Millisecond
)

// removeUnused removes a segment to which nobody is attached. It is done when there is nothing, or nothing more, to remove.
func removeUnused(id int, key uint32) (done bool) {
	var d unix.SysvShmDesc
	// Ids are used again: it is ours only with that key.
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &d); err != nil || uint32(d.Perm.Key) != key {
		return true
	}
	if d.Nattch != 0 {
		return false
	}
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return true
}
