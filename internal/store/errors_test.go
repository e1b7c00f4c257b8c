package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/store"
)

func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"connection refused": {&net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		"server gone":        {io.ErrUnexpectedEOF, true},
		"deadline":           {context.DeadlineExceeded, true},
		"shutting down":      {&pgconn.PgError{Code: "57P01"}, true},
		"starting up":        {&pgconn.PgError{Code: "57P03"}, true},
		"disk full":          {&pgconn.PgError{Code: "53100"}, true},
		"too many clients":   {&pgconn.PgError{Code: "53300"}, true},
		"lock timeout":       {&pgconn.PgError{Code: "55P03"}, true},
		"deadlock":           {&pgconn.PgError{Code: "40P01"}, true},
		"standby":            {&pgconn.PgError{Code: "25006"}, true},
		"unique violation":   {&pgconn.PgError{Code: "23505"}, false},
		"syntax":             {&pgconn.PgError{Code: "42601"}, false},
		"odd code":           {&pgconn.PgError{Code: "4"}, false},
		"no rows":            {pgx.ErrNoRows, false},
		"our own":            {errors.New("bug"), false},
		"none":               {nil, false},
	} {
		require.Equal(t, tc.want, store.IsUnavailable(tc.err), name)
		if tc.err != nil {
			require.Equal(t, tc.want, store.IsUnavailable(fmt.Errorf("list: %w", tc.err)), name)
		}
	}
}
