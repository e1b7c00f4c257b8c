package leaderboard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// live reads boards from Redis.
type live struct {
	rdb redis.UniversalClient
}

// pageCall asks for a page.
func pageCall(b Board, r request) call {
	k := b.keys()
	seconds, member, me := "", "", ""
	switch r.kind {
	case pageAfter:
		seconds, member = strconv.FormatInt(r.after.seconds, 10), memberOf(r.after.user)
	case pageAround:
		member = memberOf(r.me)
	}
	if r.me != uuid.Nil {
		me = memberOf(r.me)
	}
	return call{keys: []string{k.scores, k.members}, args: []any{r.limit, string(r.kind), seconds, member, me}}
}

// pageOf reads what page.lua returned.
func pageOf(cmd *redis.Cmd) (*slice, error) {
	values, err := list(cmd, 0)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	return sliceOf(values)
}

// page reads a page, or returns nil when there is no whole board.
func (l live) page(ctx context.Context, b Board, r request) (*slice, error) {
	c := pageCall(b, r)
	return pageOf(pageScript.Run(ctx, l.rdb, c.keys, c.args...))
}

// pageBeside reads a page, and which stand another board is at, in one round trip. The stand is the zero value when there is
// no whole board, or the other board's keys are broken: that must not cost the page.
func (l live) pageBeside(ctx context.Context, b Board, r request, beside Board) (*slice, stand, error) {
	k := beside.keys()
	page, state, err := runBoth(ctx, l.rdb,
		pageScript, pageCall(b, r), stateScript, call{keys: []string{k.scores, k.members, k.building}})
	if err != nil {
		return nil, stand{}, err
	}
	s, err := pageOf(page)
	if err != nil {
		return nil, stand{}, err
	}
	return s, standOf(state), nil
}

// standOf reads what state.lua returned.
func standOf(cmd *redis.Cmd) stand {
	values, err := list(cmd, 3)
	if err != nil {
		return stand{}
	}
	generation, okGeneration := values[0].(string)
	at, okAt := values[2].(int64)
	if !okGeneration || !okAt || generation == "" {
		return stand{}
	}
	return stand{generation: generation, at: at}
}

// sliceOf reads the answer of page.lua.
func sliceOf(values []any) (*slice, error) {
	if len(values) != 6 {
		return nil, errAnswer
	}
	numbers, err := integers(values[:3])
	own, okOwn := values[3].([]any)
	scores, okScores := values[4].([]any)
	members, okMembers := values[5].([]any)
	if err != nil || !okOwn || !okScores || !okMembers {
		return nil, errAnswer
	}
	s := &slice{updatedAt: time.UnixMilli(numbers[0]).UTC()}
	if s.rows, s.next, err = liveRows(scores, members); err != nil {
		return nil, err
	}
	setRanks(s.rows, numbers[1], numbers[2])
	if len(own) == 0 {
		return s, nil
	}
	s.me, err = ownStanding(own)
	return s, err
}

// liveRows reads the rows of a page, and the place after them if there is one.
func liveRows(scores, members []any) (rows []standing, next *place, err error) {
	n := 2 * len(members)
	if len(scores) != n && len(scores) != n+2 {
		return nil, nil, errAnswer
	}
	rows = make([]standing, len(members))
	for i := range members {
		if rows[i], err = liveStanding(scores[2*i], scores[2*i+1], members[i]); err != nil {
			return nil, nil, err
		}
	}
	if len(scores) == n {
		return rows, nil, nil
	}
	p, err := livePlace(scores[n], scores[n+1])
	return rows, &p, err
}

// ownStanding reads an own place: rank, seconds, value. It does not name the user, whom the caller knows.
func ownStanding(own []any) (*standing, error) {
	if len(own) != 3 {
		return nil, errAnswer
	}
	rank, ok := own[0].(int64)
	if !ok {
		return nil, errAnswer
	}
	me, err := liveStanding(uuid.Nil.String(), own[1], own[2])
	me.rank = rank
	return &me, err
}

func liveStanding(member, score, value any) (standing, error) {
	text, ok := value.(string)
	if !ok {
		return standing{}, errAnswer
	}
	p, errPlace := livePlace(member, score)
	version, facts, errMember := unpackMember(text)
	if err := errors.Join(errPlace, errMember); err != nil {
		return standing{}, fmt.Errorf("read board: %w", err)
	}
	return standing{place: p, version: version, facts: facts}, nil
}

func livePlace(member, score any) (place, error) {
	memberText, okMember := member.(string)
	scoreText, okScore := score.(string)
	if !okMember || !okScore {
		return place{}, errAnswer
	}
	user, errUser := uuid.Parse(memberText)
	seconds, errSeconds := strconv.ParseInt(scoreText, 10, 64)
	return place{seconds: seconds, user: user}, errors.Join(errUser, errSeconds)
}

// ranks are the ranks of those of the users that have a place, and the stand that they belong to, or nil when there is no
// whole board. At least one user must be asked for.
func (l live) ranks(ctx context.Context, b Board, users []uuid.UUID) (map[uuid.UUID]int64, stand, error) {
	k := b.keys()
	args := make([]any, len(users))
	for i, u := range users {
		args[i] = memberOf(u)
	}
	values, err := list(ranksScript.Run(ctx, l.rdb, []string{k.scores, k.members}, args...), 0)
	if err != nil || len(values) == 0 {
		return nil, stand{}, err
	}
	if len(values) != 3 {
		return nil, stand{}, errAnswer
	}
	generation, okGeneration := values[0].(string)
	at, okAt := values[1].(int64)
	list, okList := values[2].([]any)
	numbers, err := integers(list)
	if !okGeneration || !okAt || !okList || err != nil || len(numbers) != len(users) {
		return nil, stand{}, errAnswer
	}
	ranks := make(map[uuid.UUID]int64, len(users))
	for i, n := range numbers {
		if n > 0 {
			ranks[users[i]] = n
		}
	}
	return ranks, stand{generation: generation, at: at}, nil
}
