package engagement_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// run runs a loop until the returned function is called, which waits for its end.
func run(t *testing.T, r interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// hangingURL is of a server that takes connections and never answers.
func hangingURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return "redis://" + l.Addr().String()
}
