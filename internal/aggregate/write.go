package aggregate

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Bounds of one statement, so that none grows with a session's length.
const (
	rowsPerStatement  = 5000
	bytesPerStatement = 4 << 20
)

// writer writes a plan, in the transaction that holds the user's lock.
type writer struct {
	tx       pgx.Tx
	userID   uuid.UUID
	queries  *dbsqlc.Queries
	enqueue  EnqueueFunc
	attached []AttachedFunc
	pipe     store.Pipeline
}

func (f *Finalizer) writer(tx pgx.Tx, userID uuid.UUID) *writer {
	return &writer{tx: tx, userID: userID, queries: f.queries, enqueue: f.enqueue, attached: f.attached}
}

// replace puts the planned sessions in the place of those that stood in the window, moves the totals by the difference,
// and tells the outbox.
func (w *writer) replace(ctx context.Context, user dbsqlc.FinalizeGetUserRow, p *plan) error {
	if !p.changed {
		return nil
	}
	steps := []func(context.Context, *plan) error{w.removeReplaced, w.sessions, w.tellAttached, w.seconds, w.details, w.archives, w.totals}
	for _, step := range steps {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	if len(p.deltas) == 0 {
		return w.sessionCount(ctx, p)
	}
	if err := w.user(ctx, user, p); err != nil {
		return err
	}
	if err := w.enqueue(ctx, &w.pipe, w.userID, user.Version+1); err != nil {
		return fmt.Errorf("enqueue user: %w", err)
	}
	return w.pipe.Send(ctx, w.tx)
}

func (w *writer) removeReplaced(ctx context.Context, p *plan) error {
	if len(p.replaced) == 0 {
		return nil
	}
	if err := w.queries.FinalizeDeleteParts(ctx, &w.pipe, w.userID, p.replaced); err != nil {
		return err
	}
	if len(p.gone) == 0 {
		return nil
	}
	if err := w.queries.FinalizeDeleteSessions(ctx, &w.pipe, w.userID, p.gone); err != nil {
		return err
	}
	if len(p.deleted) > 0 {
		if err := w.queries.FinalizeDeleteAliases(ctx, &w.pipe, w.userID, p.deleted); err != nil {
			return err
		}
	}
	for i := range p.sessions {
		heir, absorbed := p.sessions[i].id, p.sessions[i].absorbed
		if len(absorbed) == 0 {
			continue
		}
		err := w.queries.FinalizeMoveAliases(ctx, &w.pipe, dbsqlc.FinalizeMoveAliasesParams{Heir: heir, UserID: w.userID, Absorbed: absorbed})
		if err != nil {
			return err
		}
		err = w.queries.FinalizeInsertAliases(ctx, &w.pipe, dbsqlc.FinalizeInsertAliasesParams{Absorbed: absorbed, UserID: w.userID, Heir: heir})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) sessions(ctx context.Context, p *plan) error {
	for part := range slices.Chunk(p.sessions, rowsPerStatement) {
		args := dbsqlc.FinalizeUpsertSessionsParams{UserID: w.userID}
		for i := range part {
			s := &part[i]
			args.IDs = append(args.IDs, s.id)
			args.StartedS = append(args.StartedS, s.StartedAt())
			args.EndedS = append(args.EndedS, s.Last)
			args.Zones = append(args.Zones, s.Zone)
			args.Events = append(args.Events, int64(len(s.Events)))
			args.Keystrokes = append(args.Keystrokes, s.Keystrokes)
			args.Lines = append(args.Lines, s.Lines)
			args.TopLangs = append(args.TopLangs, s.TopLang)
			args.PeakCPMs = append(args.PeakCPMs, s.PeakCount)
			args.PeakS = append(args.PeakS, s.PeakMinute)
		}
		if err := w.queries.FinalizeUpsertSessions(ctx, &w.pipe, args); err != nil {
			return err
		}
	}
	return nil
}

// tellAttached lets others follow with what hangs on the sessions, in the same pipeline: it costs no round trip.
func (w *writer) tellAttached(ctx context.Context, p *plan) error {
	c := Changed{Made: p.made, Deleted: p.deleted}
	for i := range p.sessions {
		if s := &p.sessions[i]; len(s.absorbed) > 0 {
			c.Merged = append(c.Merged, Merge{Heir: s.id, Absorbed: s.absorbed})
		}
	}
	if len(c.Made)+len(c.Merged)+len(c.Deleted) == 0 {
		return nil
	}
	for _, tell := range w.attached {
		if err := tell(ctx, &w.pipe, w.userID, c); err != nil {
			return fmt.Errorf("tell of changed sessions: %w", err)
		}
	}
	return nil
}

func (w *writer) seconds(ctx context.Context, p *plan) error {
	args := dbsqlc.FinalizeInsertSecondsParams{UserID: w.userID}
	flush := func() error {
		if len(args.Days) == 0 {
			return nil
		}
		err := w.queries.FinalizeInsertSeconds(ctx, &w.pipe, args)
		args = dbsqlc.FinalizeInsertSecondsParams{UserID: w.userID}
		return err
	}
	for i := range p.sessions {
		s := &p.sessions[i]
		for _, k := range sortedDayLangs(s.Seconds) {
			args.SessionIDs = append(args.SessionIDs, s.id)
			args.Days = append(args.Days, k.Day)
			args.Langs = append(args.Langs, k.Lang)
			args.Seconds = append(args.Seconds, s.Seconds[k])
			if len(args.Days) == rowsPerStatement {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

func (w *writer) details(ctx context.Context, p *plan) error {
	args := dbsqlc.FinalizeInsertDetailsParams{UserID: w.userID}
	size := 0
	flush := func() error {
		if len(args.SessionIDs) == 0 {
			return nil
		}
		err := w.queries.FinalizeInsertDetails(ctx, &w.pipe, args)
		args, size = dbsqlc.FinalizeInsertDetailsParams{UserID: w.userID}, 0
		return err
	}
	for i := range p.sessions {
		d, err := detailsOf(p.sessions[i].Events)
		if err != nil {
			return err
		}
		if d.files == nil && d.keyCounts == nil {
			continue
		}
		args.SessionIDs = append(args.SessionIDs, p.sessions[i].id)
		args.Files = append(args.Files, string(d.files))
		args.KeyCounts = append(args.KeyCounts, string(d.keyCounts))
		if size += len(d.files) + len(d.keyCounts); size > bytesPerStatement {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// archives sends as it goes: a long session's archive need not stand in memory twice.
func (w *writer) archives(ctx context.Context, p *plan) error {
	args := dbsqlc.FinalizeInsertArchivesParams{UserID: w.userID}
	size := 0
	flush := func() error {
		if len(args.SessionIDs) == 0 {
			return nil
		}
		err := w.queries.FinalizeInsertArchives(ctx, &w.pipe, args)
		args, size = dbsqlc.FinalizeInsertArchivesParams{UserID: w.userID}, 0
		return err
	}
	for i := range p.sessions {
		for n, c := range encodeArchive(p.sessions[i].Events) {
			args.SessionIDs = append(args.SessionIDs, p.sessions[i].id)
			args.Chunks = append(args.Chunks, int32(n))
			args.EndedS = append(args.EndedS, p.sessions[i].Last)
			args.Events = append(args.Events, c.events)
			args.Details = append(args.Details, c.details)
			if size += len(c.events) + len(c.details); size <= bytesPerStatement {
				continue
			}
			if err := flush(); err != nil {
				return err
			}
			if err := w.pipe.Send(ctx, w.tx); err != nil {
				return err
			}
		}
	}
	return flush()
}

func (w *writer) totals(ctx context.Context, p *plan) error {
	for part := range slices.Chunk(p.deltas, rowsPerStatement) {
		args := dbsqlc.FinalizeMoveTotalsParams{UserID: w.userID}
		for _, d := range part {
			args.Periods = append(args.Periods, string(d.span.Period))
			args.StartsOn = append(args.StartsOn, d.span.StartsOn)
			args.Langs = append(args.Langs, d.lang)
			args.Seconds = append(args.Seconds, d.seconds)
		}
		if err := w.queries.FinalizeMoveTotals(ctx, &w.pipe, args); err != nil {
			return err
		}
	}
	return nil
}

// sessionCount moves the number of the user's sessions where nothing else of the user's row changes.
func (w *writer) sessionCount(ctx context.Context, p *plan) error {
	if n := p.moreSessions(); n != 0 {
		if err := w.queries.FinalizeMoveSessionCount(ctx, &w.pipe, n, w.userID); err != nil {
			return err
		}
	}
	return w.pipe.Send(ctx, w.tx)
}

// user raises the version, moves the number of sessions, and repairs the streak. It reads the day totals as they stood
// before, while the statements that change them are still queued behind it.
func (w *writer) user(ctx context.Context, user dbsqlc.FinalizeGetUserRow, p *plan) error {
	before := make(map[calendar.Day]int64)
	if days := p.days(); len(days) > 0 {
		rows, err := w.queries.FinalizeGetDayTotals(ctx, w.tx, w.userID, days)
		if err != nil {
			return fmt.Errorf("read day totals: %w", err)
		}
		for _, r := range rows {
			before[r.StartsOn] = r.Seconds
		}
	}
	streak, ok := streakOf(user).extend(changedDays(before, p.deltas))
	if !ok {
		return w.queries.FinalizeUpdateUserRebuildStreak(ctx, &w.pipe, dbsqlc.FinalizeUpdateUserRebuildStreakParams{
			UserID: w.userID, Version: user.Version + 1, Sessions: p.moreSessions(),
		})
	}
	args := dbsqlc.FinalizeUpdateUserParams{
		UserID: w.userID, Version: user.Version + 1, LongestStreakDays: streak.Longest, Sessions: p.moreSessions(),
	}
	if streak.Longest > 0 {
		args.StreakFirstOn, args.StreakLastOn = &streak.First, &streak.Last
	}
	return w.queries.FinalizeUpdateUser(ctx, &w.pipe, args)
}

func streakOf(u dbsqlc.FinalizeGetUserRow) Streak {
	if u.StreakFirstOn == nil || u.StreakLastOn == nil {
		return Streak{}
	}
	return Streak{First: *u.StreakFirstOn, Last: *u.StreakLastOn, Longest: u.LongestStreakDays}
}

// use deletes the events that were used up, and says anew where the user has hot events: every mark that was read goes,
// and each run that stays open gets one. A mark that was read stands for nothing but events that were read after it, so
// none is left without; one that came later is not touched.
func (w *writer) use(ctx context.Context, hot *hotSet, sel selection, failedBefore bool) error {
	for part := range slices.Chunk(sel.seqs, rowsPerStatement) {
		if err := w.queries.FinalizeDeleteEvents(ctx, &w.pipe, w.userID, part); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(hot.marks, rowsPerStatement) {
		if err := w.queries.FinalizeDeleteHotRuns(ctx, &w.pipe, w.userID, part); err != nil {
			return err
		}
	}
	if err := w.markOpen(ctx, sel.open); err != nil {
		return err
	}
	if failedBefore {
		if err := w.queries.ScanDeleteFailure(ctx, &w.pipe, w.userID); err != nil {
			return err
		}
	}
	return w.pipe.Send(ctx, w.tx)
}

func (w *writer) markOpen(ctx context.Context, open []stretch) error {
	if len(open) == 0 {
		return nil
	}
	args := dbsqlc.FinalizeInsertHotRunsParams{UserID: w.userID}
	for _, s := range open {
		args.Firsts = append(args.Firsts, s.first)
		args.Lasts = append(args.Lasts, s.last)
	}
	return w.queries.FinalizeInsertHotRuns(ctx, &w.pipe, args)
}
