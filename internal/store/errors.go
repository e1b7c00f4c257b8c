package store

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLState is the SQLSTATE of err, or "" when the error did not come from Postgres.
func SQLState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// IsUniqueViolation says whether err is Postgres refusing a second row with the same key.
func IsUniqueViolation(err error) bool { return SQLState(err) == "23505" }

// IsConnectionError says whether err came from reaching or talking to Postgres, or from a context that ended, and not
// from what was asked of it.
func IsConnectionError(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.As(err, &network) || errors.As(err, &connect) ||
		pgconn.SafeToRetry(err) // the connection was found dead before anything was sent
}

// IsUnavailable says whether err means that Postgres could not do the work now and may be able to later: it is away,
// starting, stopping, full, failing over or too slow, or a lock or a conflict stood in the way. Sending the same
// request again is then worthwhile; with any other error it is not.
func IsUnavailable(err error) bool {
	if state := SQLState(err); state != "" {
		return isTransient(state)
	}
	return IsConnectionError(err)
}

// isTransient judges an SQLSTATE, by its class (the first two characters) where a whole class is of one kind.
func isTransient(code string) bool {
	switch code {
	case "55P03", // lock_not_available: lock_timeout
		"25006": // read_only_sql_transaction: a failover has left us on a standby
		return true
	}
	if len(code) < 2 {
		return false
	}
	switch code[:2] {
	case "08", // connection exception
		"40", // transaction rollback: serialization failure, deadlock
		"53", // insufficient resources
		"57", // operator intervention: shutdown, statement timeout
		"58": // system error outside Postgres
		return true
	}
	return false
}
