package outbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// roundResult is what one round over a page left to do.
type roundResult struct {
	stats    Stats
	again    []uuid.UUID         // read and publish them again
	waiting  []uuid.UUID         // one of their boards is being built
	building []leaderboard.Board // those boards
	err      error               // what the first board that failed said; its users are counted in stats.Left
}

// round reads the users once, publishes them, and clears who is done. The order of its steps is the point of it: see
// doc.go.
func (p *Publisher) round(ctx context.Context, now *time.Time, ids []uuid.UUID) (roundResult, error) {
	known := p.known.now()
	readAt, err := p.boards.Time(ctx)
	if err != nil {
		return roundResult{}, err
	}
	present := readAt // of this round, however long ago the cycle began
	if now != nil {
		present = *now
	}
	b := batch{spans: leaderboard.Published(present), readAt: readAt, index: make(map[leaderboard.Board]int)}
	p.known.keep(b.spans)
	if b.users, err = p.read(ctx, b.spans, ids); err != nil {
		return roundResult{}, err
	}
	if err := p.fill(ctx, &b, known); err != nil {
		return roundResult{}, err
	}
	outcomes, err := p.boards.Publish(ctx, b.pubs)
	if err != nil {
		return roundResult{}, err
	}
	result, done := p.settle(&b, outcomes, calendar.Kept(present))
	if err := p.clear(ctx, done); err != nil {
		return roundResult{}, err
	}
	result.stats.Users = len(done)
	return result, nil
}

// user is what is published of one pending user: one row of OutboxReadMany.
type user = dbsqlc.OutboxReadManyRow

// read returns those of the users that are pending; the others are done already.
func (p *Publisher) read(ctx context.Context, spans []calendar.Span, ids []uuid.UUID) ([]user, error) {
	arg := dbsqlc.OutboxReadManyParams{BoardLangs: p.langs, UserIDs: ids}
	for _, s := range spans {
		arg.Periods = append(arg.Periods, string(s.Period))
		arg.Starts = append(arg.Starts, s.StartsOn)
	}
	users, err := dbsqlc.New().OutboxReadMany(ctx, p.db, arg)
	if err != nil {
		return nil, fmt.Errorf("read pending users: %w", err)
	}
	return users, nil
}

// batch is a page of users sorted by board.
type batch struct {
	spans  []calendar.Span
	readAt time.Time
	users  []user
	pubs   []leaderboard.Publication
	index  map[leaderboard.Board]int // into pubs
}

// fill turns the users into publications with the generations that were known at a reading.
func (p *Publisher) fill(ctx context.Context, b *batch, known reading) error {
	var gone []*user
	for i := range b.users {
		if u := &b.users[i]; u.Gone {
			gone = append(gone, u)
		} else {
			b.addTotals(u)
		}
	}
	if len(gone) > 0 {
		// Asked after the users were found gone: a board that appears later was read later.
		boards, err := p.boards.Existing(ctx, p.allBoards(b.spans))
		if err != nil {
			return err
		}
		for _, board := range boards {
			for _, u := range gone {
				b.add(board, leaderboard.Row{User: u.UserID, Version: u.Version})
			}
		}
	}
	for i := range b.pubs {
		b.pubs[i].Generation = p.known.get(b.pubs[i].Board, known)
	}
	return nil
}

// allBoards are all boards that publishers write to, whether they exist or not.
func (p *Publisher) allBoards(spans []calendar.Span) []leaderboard.Board {
	boards := make([]leaderboard.Board, 0, len(spans)*(1+len(p.langs)))
	for _, s := range spans {
		boards = append(boards, leaderboard.Board{Span: s})
		for _, lang := range p.langs {
			boards = append(boards, leaderboard.Board{Span: s, Lang: lang})
		}
	}
	return boards
}

// addTotals adds a row for each of a user's totals: its seconds, or the removal of a user who is not shown.
func (b *batch) addTotals(u *user) {
	tops := topLangs(u)
	for i, lang := range u.Langs {
		span := spanOf(u, i)
		row := leaderboard.Row{User: u.UserID, Version: u.Version}
		if u.Shown {
			row.Seconds = u.Seconds[i]
			row.Facts = factsOf(u, tops[span])
		}
		b.add(leaderboard.Board{Span: span, Lang: lang}, row)
	}
}

// topLangs are a user's languages with most seconds by span, of those that have boards; ties go to the smaller key. In the
// totals in Postgres the query of a page says the same.
func topLangs(u *user) map[calendar.Span]string {
	best := make(map[calendar.Span]int, len(u.Langs))
	for i, lang := range u.Langs {
		if lang == "" || u.Seconds[i] == 0 {
			continue
		}
		j, found := best[spanOf(u, i)]
		if !found || u.Seconds[i] > u.Seconds[j] || u.Seconds[i] == u.Seconds[j] && lang < u.Langs[j] {
			best[spanOf(u, i)] = i
		}
	}
	tops := make(map[calendar.Span]string, len(best))
	for span, i := range best {
		tops[span] = u.Langs[i]
	}
	return tops
}

// spanOf is the span of the user's i-th total.
func spanOf(u *user, i int) calendar.Span {
	return calendar.Span{Period: calendar.Period(u.Periods[i]), StartsOn: u.Starts[i]}
}

func factsOf(u *user, topLang string) leaderboard.Facts {
	return leaderboard.Facts{
		Handle: u.Handle, AvatarURL: u.AvatarUrl, TopLang: topLang,
		StreakFirst: u.StreakFirstOn, StreakLast: u.StreakLastOn, Zone: u.Zone,
	}
}

func (b *batch) add(board leaderboard.Board, row leaderboard.Row) {
	i, ok := b.index[board]
	if !ok {
		i = len(b.pubs)
		b.index[board] = i
		b.pubs = append(b.pubs, leaderboard.Publication{Board: board, ReadAt: b.readAt})
	}
	b.pubs[i].Rows = append(b.pubs[i].Rows, row)
}

// fate is what became of a user in a round: the worst that any board had to say.
type fate int

const (
	fateDone  fate = iota
	fateNoted      // shown as it should be, but only by what is being built: stays pending until it is published there
	fateAgain
	fateWaiting
	fateFailed
)

// settle judges the outcomes: what is left to do, and which users are done.
func (p *Publisher) settle(b *batch, outcomes []leaderboard.Outcome, kept []calendar.Span) (roundResult, []*user) {
	var r roundResult
	fates := make(map[uuid.UUID]fate, len(b.users))
	for i := range outcomes {
		p.judge(&b.pubs[i], &outcomes[i], kept, &r, fates)
	}
	cleared := make([]*user, 0, len(b.users))
	for i := range b.users {
		u := &b.users[i]
		switch fates[u.UserID] {
		case fateDone:
			cleared = append(cleared, u)
		case fateNoted:
			r.stats.Left++
			r.stats.noted++
		case fateAgain:
			r.again = append(r.again, u.UserID)
		case fateWaiting:
			r.waiting = append(r.waiting, u.UserID)
		case fateFailed:
			r.stats.Left++
		}
	}
	return r, cleared
}

func (p *Publisher) judge(
	pub *leaderboard.Publication, o *leaderboard.Outcome, kept []calendar.Span, r *roundResult, fates map[uuid.UUID]fate,
) {
	switch o.Verdict {
	case leaderboard.Taken:
		r.stats.Boards++
		r.stats.Rows += len(pub.Rows) - len(o.Refused)
		r.stats.Refused += len(o.Refused)
		// The board knows something newer, so the outbox should too: read it.
		for _, i := range o.Refused {
			worsen(fates, fateAgain, pub.Rows[i])
		}
	case leaderboard.Absent:
		if slices.Contains(kept, pub.Board.Span) {
			r.stats.absent++
		}
	case leaderboard.Building:
		r.building = append(r.building, pub.Board)
		for i := range pub.Rows {
			f := fateWaiting
			if o.Noted && pub.Rows[i].Seconds == 0 {
				f = fateNoted
			}
			worsen(fates, f, pub.Rows[i])
		}
	case leaderboard.OtherBoard:
		p.known.learn(pub.Board, o.Generation)
		worsen(fates, fateAgain, pub.Rows...)
	case leaderboard.ReadTooLong:
		worsen(fates, fateAgain, pub.Rows...)
	default:
		if r.err == nil {
			r.err = fmt.Errorf("%w: %w", errBoard, o.Err)
		}
		worsen(fates, fateFailed, pub.Rows...)
	}
}

func worsen(fates map[uuid.UUID]fate, f fate, rows ...leaderboard.Row) {
	for i := range rows {
		id := rows[i].User
		fates[id] = max(fates[id], f)
	}
}

// clear takes users out of the outbox at the versions that were published. Zero totals go first: if that is as far as it
// comes, the user is published once more, and that is all.
func (p *Publisher) clear(ctx context.Context, users []*user) error {
	if len(users) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(users))
	versions := make([]int64, len(users))
	for i, u := range users {
		ids[i], versions[i] = u.UserID, u.Version
	}
	if err := dbsqlc.New().OutboxDeleteZeroTotals(ctx, p.db, ids, versions); err != nil {
		return fmt.Errorf("delete zero totals: %w", err)
	}
	if err := dbsqlc.New().OutboxDeletePublished(ctx, p.db, ids, versions); err != nil {
		return fmt.Errorf("clear outbox: %w", err)
	}
	return nil
}
