package leaderboard

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Verifier compares boards in Redis with totals. It writes nothing and takes no locks. It is safe for concurrent use.
type Verifier struct {
	db     dbsqlc.DBTX
	rdb    redis.UniversalClient
	boards *Boards
	langs  []string
}

// NewVerifier makes a Verifier that reads totals from a pool. languages are the keys that have boards.
func NewVerifier(db dbsqlc.DBTX, rdb redis.UniversalClient, languages []string) *Verifier {
	return &Verifier{db: db, rdb: rdb, boards: NewBoards(rdb), langs: languages}
}

// Fault is what is wrong with what a board holds of a user.
type Fault string

// The faults, the worse ones first.
const (
	// FaultVersion is a newer version than the user's, in a place or a tombstone: the board refuses what is published of the
	// user, who is pending for ever then, or will be with the next change. Postgres was restored to an older state.
	FaultVersion Fault = "version"
	// FaultSeconds is other seconds than the total's.
	FaultSeconds Fault = "seconds"
	// FaultValue is another version, or other facts, than a page should show; or none at all, so that no page can be read.
	FaultValue Fault = "value"
)

// Misplaced is a user of whom a board holds something wrong. Of who is pending, only FaultVersion is wrong.
type Misplaced struct {
	Fault   Fault
	User    uuid.UUID // uuid.Nil for a member that is no user's at all
	Shown   int64     // 0 when the user is missing on the board
	Seconds int64     // 0 when the user should not be on it
	Held    int64     // the version that the board holds of the user, be it a place or a tombstone; 0 for none
}

// Audit is how a board is compared.
type Audit struct {
	Page  int                                                    // users at a time; both servers are asked for so many at once
	Pause func(ctx context.Context) error                        // called between pages
	Found func(ctx context.Context, misplaced []Misplaced) error // called for each page with something wrong
}

// Audited is what became of a comparison.
type Audited struct {
	Members int64 // places on the board
	Unbuilt bool  // there was no whole board, or not the same one to the end: Postgres answers for it, or did meanwhile
}

// Verify compares a board with totals, both ways: each place must have a total, and each total a place. Of a place all that
// is stored is compared: seconds, version and facts. Of a tombstone, the version must not be newer than the user's.
//
// A place that looks wrong is looked at again before it counts: a user's row is read in Postgres, then the place in
// Redis, then the row again. The user counts only when it was not pending at either read, and had the same version:
// then nothing of the user changed in between, and all boards had taken that version before (see package outbox). A version
// that is newer than the row read after it counts in any case, since only what was committed is published.
func (v *Verifier) Verify(ctx context.Context, board Board, a Audit) (Audited, error) {
	generation, err := v.generation(ctx, board)
	if err != nil || generation == "" {
		return Audited{Unbuilt: true}, err
	}
	c := &comparison{Verifier: v, Audit: a, board: board, generation: generation, seen: make(map[uuid.UUID]bool)}
	if err := c.places(ctx); err != nil {
		return Audited{}, fmt.Errorf("verify board %s: %w", board.tag(), err)
	}
	if err := c.totals(ctx); err != nil {
		return Audited{}, fmt.Errorf("verify board %s: %w", board.tag(), err)
	}
	now, err := v.generation(ctx, board)
	return Audited{Members: c.members, Unbuilt: now != generation}, err
}

// generation is the generation of a whole board, "" when there is none.
func (v *Verifier) generation(ctx context.Context, board Board) (string, error) {
	states, err := v.boards.States(ctx, []Board{board})
	if err != nil {
		return "", err
	}
	return states[0].Generation, nil
}

// comparison is one run of Verify.
type comparison struct {
	*Verifier
	Audit
	board      Board
	generation string
	members    int64
	seen       map[uuid.UUID]bool // who was found misplaced
}

// places looks for the total of each place. A scan returns every member that stays, wherever it moves; some twice.
func (c *comparison) places(ctx context.Context) error {
	key := c.board.keys().scores
	for cursor := uint64(0); ; {
		values, next, err := c.rdb.ZScan(ctx, key, cursor, "", int64(c.Page)).Result()
		if err != nil {
			return fmt.Errorf("scan places: %w", err)
		}
		if err := c.placesPage(ctx, values); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
		if err := c.Pause(ctx); err != nil {
			return err
		}
	}
}

// placesPage takes members and scores in turn.
func (c *comparison) placesPage(ctx context.Context, values []string) error {
	shown := make([]heldPlace, 0, len(values)/2)
	users := make([]uuid.UUID, 0, len(values)/2)
	members := make([]string, 0, len(values)/2)
	for i := 0; i+1 < len(values); i += 2 {
		score, errScore := strconv.ParseFloat(values[i+1], 64)
		id, errID := uuid.Parse(values[i])
		ours := errID == nil && memberOf(id) == values[i] && id != uuid.Nil
		if errScore == nil && score > 0 {
			c.members++
			if !ours {
				if err := c.foreign(ctx, int64(score)); err != nil {
					return err
				}
			}
		}
		if ours {
			shown = append(shown, heldPlace{seconds: max(score, 0)})
			users = append(users, id)
			members = append(members, values[i])
		}
	}
	if len(users) == 0 {
		return nil
	}
	texts, err := c.rdb.HMGet(ctx, c.board.keys().members, members...).Result()
	if err != nil {
		return fmt.Errorf("read what places hold: %w", err)
	}
	rows, err := c.read(ctx, users)
	if err != nil {
		return err
	}
	var suspects []uuid.UUID
	for i, id := range users {
		shown[i].holds(texts[i])
		if rows[id].fault(&shown[i]) != "" {
			suspects = append(suspects, id)
		}
	}
	return c.confirm(ctx, suspects)
}

// foreign reports a member that no publisher has written, once.
func (c *comparison) foreign(ctx context.Context, score int64) error {
	if c.seen[uuid.Nil] {
		return nil
	}
	c.seen[uuid.Nil] = true
	return c.Found(ctx, []Misplaced{{Fault: FaultSeconds, Shown: score}})
}

// totals looks for the place of each total.
func (c *comparison) totals(ctx context.Context) error {
	for from := top; ; {
		rows, err := dbsqlc.New().VerifyBoardTotals(ctx, c.db, dbsqlc.VerifyBoardTotalsParams{
			Period: c.board.Period, StartsOn: c.board.StartsOn, Lang: c.board.Lang,
			Seconds: from.seconds, UserID: from.user, MaxRows: int32(c.Page),
		})
		if err != nil {
			return fmt.Errorf("read totals: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		users := make([]uuid.UUID, len(rows))
		for i := range rows {
			users[i] = rows[i].UserID
		}
		places, err := c.held(ctx, users)
		if err != nil {
			return err
		}
		var suspects []uuid.UUID
		for i, p := range places {
			if p.seconds != float64(rows[i].Seconds) || p.version > rows[i].Version {
				suspects = append(suspects, users[i])
			}
		}
		if err := c.confirm(ctx, suspects); err != nil || len(rows) < c.Page {
			return err
		}
		from = place{seconds: rows[len(rows)-1].Seconds, user: users[len(users)-1]}
		if err := c.Pause(ctx); err != nil {
			return err
		}
	}
}

// confirm looks at suspects again and reports those that are wrong.
func (c *comparison) confirm(ctx context.Context, suspects []uuid.UUID) error {
	if len(suspects) == 0 {
		return nil
	}
	before, err := c.read(ctx, suspects)
	if err != nil {
		return err
	}
	places, err := c.held(ctx, suspects)
	if err != nil {
		return err
	}
	after, err := c.read(ctx, suspects)
	if err != nil {
		return err
	}
	// Generations never come back: it was this board all the time.
	if generation, err := c.Verifier.generation(ctx, c.board); err != nil || generation != c.generation {
		return err
	}
	var found []Misplaced
	for i, id := range suspects {
		was, is, p := before[id], after[id], &places[i]
		fault := is.fault(p)
		if fault == "" || c.seen[id] || fault != FaultVersion && (was.pending || was != is) {
			continue
		}
		c.seen[id] = true
		found = append(found, Misplaced{Fault: fault, User: id, Shown: int64(p.seconds), Seconds: is.seconds, Held: p.version})
	}
	if len(found) == 0 {
		return nil
	}
	return c.Found(ctx, found)
}

// wanted is what a board should hold of a user, by Postgres.
type wanted struct {
	version       int64
	pending, gone bool
	seconds       int64
	value         string // of a place
}

// fault is what is wrong with a place, "" for nothing.
func (w wanted) fault(p *heldPlace) Fault {
	switch {
	case p.version > w.version && (!w.gone || w.pending): // what remains of who is gone, and published, may be anything
		return FaultVersion
	case w.pending:
		return ""
	case p.seconds != float64(w.seconds):
		return FaultSeconds
	case w.seconds > 0 && p.value != w.value:
		return FaultValue
	}
	return ""
}

// read is what the board should hold of users.
func (c *comparison) read(ctx context.Context, users []uuid.UUID) (map[uuid.UUID]wanted, error) {
	rows, err := dbsqlc.New().VerifyBoardUsers(ctx, c.db, dbsqlc.VerifyBoardUsersParams{
		BoardLangs: c.langs, UserIDs: users, Period: c.board.Period, StartsOn: c.board.StartsOn, Lang: c.board.Lang,
	})
	if err != nil {
		return nil, fmt.Errorf("read users of a board: %w", err)
	}
	byUser := make(map[uuid.UUID]wanted, len(rows))
	for i := range rows {
		r := &rows[i]
		byUser[r.UserID] = wanted{
			version: r.Version, pending: r.Pending, gone: r.Gone, seconds: r.Seconds,
			value: packMember(r.Version, Facts{
				Handle: r.Handle, AvatarURL: r.AvatarUrl, TopLang: r.TopLang,
				StreakFirst: r.StreakFirstOn, StreakLast: r.StreakLastOn, Zone: r.Zone,
			}),
		}
	}
	return byUser, nil
}

// heldPlace is what a board holds of a user.
type heldPlace struct {
	seconds float64 // 0 for none
	version int64   // 0 for none
	value   string  // "" for none
}

// MaxVersion is the newest version that healing gives to anybody. A board that holds a newer one can only be built anew.
const MaxVersion = 1 << 52

// holds takes a field of the hash. Its version is what the scripts take for it: the digits that a value starts with, whatever
// follows.
func (p *heldPlace) holds(field any) {
	text, ok := field.(string)
	if !ok {
		return
	}
	p.value = text
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	p.version, _ = strconv.ParseInt(digits, 10, 64) // none is 0, and too many are the largest there is
}

func (c *comparison) held(ctx context.Context, users []uuid.UUID) ([]heldPlace, error) {
	members := make([]string, len(users))
	for i, u := range users {
		members[i] = memberOf(u)
	}
	k := c.board.keys()
	pipe := c.rdb.Pipeline()
	scores, values := pipe.ZMScore(ctx, k.scores, members...), pipe.HMGet(ctx, k.members, members...)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read places: %w", err)
	}
	places := make([]heldPlace, len(users))
	for i := range places {
		places[i].seconds = max(scores.Val()[i], 0) // a tombstone is no place
		places[i].holds(values.Val()[i])
	}
	return places, nil
}

// Kept are the boards that Redis should have, and those of kept spans that it has although nobody has seconds. now replaces
// Redis's clock, as for EnsureKept.
func (b *Builder) Kept(ctx context.Context, now *time.Time) ([]Board, error) {
	return b.having(ctx, now, calendar.Kept)
}

// Written are the boards of Kept, and those that publishers still write although they are not kept any more.
func (b *Builder) Written(ctx context.Context, now *time.Time) ([]Board, error) {
	return b.having(ctx, now, Published)
}

func (b *Builder) having(ctx context.Context, now *time.Time, spans func(time.Time) []calendar.Span) ([]Board, error) {
	at, err := b.boards.Present(ctx, now)
	if err != nil {
		return nil, err
	}
	boards, err := b.wanted(ctx, calendar.Kept(at))
	if err != nil {
		return nil, err
	}
	known := make(map[Board]bool, len(boards))
	for _, board := range boards {
		known[board] = true
	}
	var others []Board
	for _, span := range spans(at) {
		for _, lang := range append([]string{""}, b.langs...) {
			if board := (Board{Span: span, Lang: lang}); !known[board] {
				others = append(others, board)
			}
		}
	}
	existing, err := b.boards.Existing(ctx, others)
	return append(boards, existing...), err
}
