package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/verify"
)

type leaderboardCmd struct {
	Rebuild rebuildCmd `cmd:"" help:"Build boards anew from totals; Postgres answers for each meanwhile."`
	Verify  verifyCmd  `cmd:"" help:"Compare totals and streaks with sessions, and boards with totals; print what was found as one line of JSON."`
}

type rebuildCmd struct {
	storeFlags
	Period string `help:"Only boards of this period: day, week, month or alltime." placeholder:"PERIOD"`
	Lang   string `help:"Only boards of this language; 'all' for those of all languages." placeholder:"LANGUAGE"`
}

// rebuilt is the line that leaderboard rebuild prints.
type rebuilt struct {
	Boards int     `json:"boards"` // asked for
	Built  int     `json:"built"`
	Busy   int     `json:"busy"` // somebody else is building them
	Failed int     `json:"failed"`
	Rows   int64   `json:"rows"` // places on the built ones
	TookS  float64 `json:"took_s"`
}

// Run implements the command.
func (c *rebuildCmd) Run(ctx context.Context, p *program) error {
	keep, err := c.filter()
	if err != nil {
		return err
	}
	b, err := openBackend(ctx, p, c.storeFlags, app.Options{})
	if err != nil {
		return err
	}
	defer b.Close()
	began := b.Clock.Now()
	kept, err := b.Builder.Kept(ctx, nil)
	if err != nil {
		return err
	}
	var boards []leaderboard.Board
	for _, board := range kept {
		if keep(board) {
			boards = append(boards, board)
		}
	}
	r, err := b.rebuild(ctx, p, boards)
	// Who changed during the builds had to wait for them.
	_, publishErr := b.Publisher.PublishPending(ctx, nil)
	r.TookS = b.Clock.Now().Sub(began).Seconds()
	return errors.Join(json.NewEncoder(p.stdout).Encode(r), err, publishErr)
}

// allLanguages is how the command line names the boards of all languages.
const allLanguages = "all"

func (c *rebuildCmd) filter() (func(leaderboard.Board) bool, error) {
	var period calendar.Period
	if c.Period != "" {
		var err error
		if period, err = calendar.ParsePeriod(c.Period); err != nil {
			return nil, fmt.Errorf("--period: %w", err)
		}
	}
	lang := ""
	if c.Lang != "" && c.Lang != allLanguages {
		key, listed := languages.New().Resolve(c.Lang)
		if !listed {
			return nil, fmt.Errorf("--lang: %q is no language that has boards", c.Lang)
		}
		lang = key
	}
	return func(b leaderboard.Board) bool {
		return (period == "" || b.Period == period) && (c.Lang == "" || b.Lang == lang)
	}, nil
}

// rebuild builds boards one after another. One that fails does not stop the others.
func (b *backend) rebuild(ctx context.Context, p *program, boards []leaderboard.Board) (rebuilt, error) {
	step, end := newProgress(ctx, p)
	defer end()
	r := rebuilt{Boards: len(boards)}
	var errs []error
	for i, board := range boards {
		built, err := b.Builder.Build(ctx, board)
		switch {
		case err == nil:
			r.Built++
			r.Rows += built.Rows
		case errors.Is(err, leaderboard.ErrBuilding):
			r.Busy++
		case ctx.Err() != nil:
			return r, ctx.Err()
		default:
			r.Failed++
			errs = append(errs, err)
		}
		step(int64(i)+1, int64(len(boards)), "boards")
	}
	return r, errors.Join(errs...)
}

type verifyCmd struct {
	storeFlags
	Heal bool `help:"Repair what is found: totals and streaks from sessions, boards through the outbox."`
}

// errDrift makes the exit code say what the line says.
var errDrift = errors.New("drift was found and is not healed")

// Run implements the command.
func (c *verifyCmd) Run(ctx context.Context, p *program) error {
	b, err := openBackend(ctx, p, c.storeFlags, app.Options{})
	if err != nil {
		return err
	}
	defer b.Close()
	step, end := newProgress(ctx, p)
	r, err := b.Checker.All(ctx, verify.Options{Heal: c.Heal, Step: step})
	end()
	if err == nil && r.Drift > r.Healed {
		err = errDrift
	}
	return errors.Join(json.NewEncoder(p.stdout).Encode(r), err)
}
