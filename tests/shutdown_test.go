package tests

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
)

// An upload that is being stored when the server is told to stop is stored and answered first.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	base, p := s.serve()
	user := s.createUser("late", "UTC")
	pool, err := store.Open(t.Context(), s.database, store.Options{AppName: "test"})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE events IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)

	status := make(chan int, 1)
	go func() {
		body := fmt.Sprintf(`{"events":[{"id":"%s","ts":%d,"keystrokes":1,"lines":1}]}`, uuid.NewString(), clock.System{}.Now().UnixMilli())
		got, _ := call(t, "POST", base+"/v1/ingest", user.Token, body)
		status <- got
	}()
	require.Eventually(t, func() bool {
		return rows[struct{ N int64 }](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'commma'`)[0].N > 0
	}, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, 30*time.Second, 5*time.Millisecond, "it stops listening first")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, 202, <-status)
	<-p.done
	require.NoError(t, p.err, "an orderly end")
	require.Equal(t, int64(1), rows[struct{ N int64 }](t, pool, `SELECT count(*) FROM events`)[0].N)
}
