package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// PlanEachTime has statements planned for the values of each call. It is for those that look for few among all users.
//
// A statement that is prepared once is planned for the values of its first five calls and then, where that seems to cost no
// more than those did on average, by one plan for whatever values, for as long as the connection lives
// (https://www.postgresql.org/docs/current/sql-prepare.html). One expensive call among the five is enough. That plan cannot
// tell how few rows it will find, and may read a table whole to find none.
func PlanEachTime(db dbsqlc.DBTX) dbsqlc.DBTX { return planEachTime{db} }

type planEachTime struct{ db dbsqlc.DBTX }

// Types are still asked for once and remembered, so that a call remains one round trip.
const planned = pgx.QueryExecModeCacheDescribe

func (p planEachTime) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.db.Exec(ctx, sql, append([]any{planned}, args...)...)
}

func (p planEachTime) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.db.Query(ctx, sql, append([]any{planned}, args...)...)
}

func (p planEachTime) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return p.db.QueryRow(ctx, sql, append([]any{planned}, args...)...)
}
