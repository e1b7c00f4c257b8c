package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/commma/commma/internal/replay"
)

type replayCmd struct {
	File        string        `arg:"" help:"Events, one JSON object a line, each with a user beside its fields." type:"existingfile"`
	API         string        `help:"Base URL of the API." default:"http://127.0.0.1:8080" env:"COMMMA_API_URL" placeholder:"URL"`
	Token       string        `help:"Token to upload all events with. COMMMA_TOKEN or --tokens keep it out of what ps shows." env:"COMMMA_TOKEN" xor:"token"`
	Tokens      string        `help:"File with a token per user: a JSON object, or lines of user and token." type:"existingfile" xor:"token"`
	BatchSize   int           `help:"Events per request." default:"500"`
	Shuffle     bool          `help:"Upload each user's events in random order, in batches of random sizes."`
	Seed        uint64        `help:"Seed of --shuffle." default:"1"`
	Parallel    int           `help:"Users to upload for at the same time." default:"4"`
	ShiftWeeks  string        `help:"Move events forward by this many weeks; auto moves up to four weeks of data into the accepted window." placeholder:"N|auto"`
	MaxEventAge time.Duration `help:"What the server accepts, for --shift-weeks=auto." default:"720h" env:"COMMMA_MAX_EVENT_AGE"`
}

// Run implements the command.
func (c *replayCmd) Run(ctx context.Context, p *program) error {
	tokens, err := c.tokens()
	if err != nil {
		return err
	}
	shift, err := replay.ParseShift(c.ShiftWeeks)
	if err != nil {
		return err
	}
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	file, err := replay.Load(f, info.Size())
	if err != nil {
		return err
	}
	summary, err := replay.Run(ctx, file, replay.Config{
		URL: c.API, Tokens: tokens, BatchSize: c.BatchSize, Shuffle: c.Shuffle, Seed: c.Seed, Parallel: c.Parallel,
		Shift: shift, MaxAge: c.MaxEventAge, Clock: p.clock, Log: p.log, Bar: replay.Terminal(os.Stderr),
	})
	// The summary is true also beside an error.
	return errors.Join(json.NewEncoder(p.stdout).Encode(summary), err)
}

func (c *replayCmd) tokens() (replay.Tokens, error) {
	switch {
	case c.Tokens != "":
		f, err := os.Open(c.Tokens)
		if err != nil {
			return replay.Tokens{}, fmt.Errorf("open tokens: %w", err)
		}
		defer func() { _ = f.Close() }()
		return replay.ParseTokens(f)
	case c.Token != "":
		return replay.OneToken(c.Token), nil
	default:
		return replay.Tokens{}, errors.New("replay needs --token or --tokens")
	}
}
