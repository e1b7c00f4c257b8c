package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/recapmail"
)

type recapCmd struct {
	Send recapSendCmd `cmd:"" help:"Mail a week's recap to every user who asked for it: once per user and week, however often and wherever this runs."`
}

type recapSendCmd struct {
	databaseFlags
	Week        string        `help:"The week: 2026-W25, or a date in it; default the last whole one. It can be sent from Monday 12:15 UTC on, when it is over in every zone, for eight weeks." placeholder:"WEEK"`
	From        string        `help:"The sender, such as 'Commma <recap@example.org>'." required:"" env:"COMMMA_MAIL_FROM" placeholder:"ADDRESS"`
	BaseURL     string        `help:"URL under which users reach the API, for the link that stops the mails; https, or mail programs show no button for it." required:"" env:"COMMMA_BASE_URL" placeholder:"URL"`
	SMTPHost    string        `name:"smtp-host" help:"The mail server that mails are handed over to. It should sign them (DKIM)." env:"COMMMA_SMTP_HOST" placeholder:"HOST"`
	SMTPPort    int           `name:"smtp-port" help:"Its port; 0 is 587, with tls 465, with none 25." default:"0" env:"COMMMA_SMTP_PORT"`
	SMTPTLS     string        `name:"smtp-tls" help:"starttls, which is then needed; tls from the first byte; none, for a server on this machine." enum:"starttls,tls,none" default:"starttls" env:"COMMMA_SMTP_TLS"`
	SMTPUser    string        `name:"smtp-user" help:"User at the mail server; empty for no login." env:"COMMMA_SMTP_USER" placeholder:"USER"`
	SMTPPass    string        `name:"smtp-password" help:"Password; better given as the variable." env:"COMMMA_SMTP_PASSWORD" placeholder:"PASSWORD"`
	Connections int           `help:"Connections to the mail server at the same time. At a kill, each has at most one mail in flight." default:"8" env:"COMMMA_SMTP_CONNECTIONS"`
	Rate        float64       `help:"Mails per second at most; 0 means as fast as the server takes them." default:"0" env:"COMMMA_MAIL_RATE"`
	Lease       time.Duration `help:"For how long mails are reserved for a process: after a kill, those it had in hand wait so long." default:"4m" env:"COMMMA_MAIL_LEASE"`
	Attempts    int           `help:"How often a mail is tried that the server refuses for now." default:"8" env:"COMMMA_MAIL_ATTEMPTS"`
	RetryAfter  time.Duration `help:"How long to wait before the second attempt; each further wait is twice as long, up to 15 minutes." default:"30s" env:"COMMMA_MAIL_RETRY_AFTER"`
	Again       []string      `help:"Which mails of the week to send as if for the first time: refused, given_up, or both with a comma. For when settings were wrong; what was sent is never sent again." enum:"refused,given_up" placeholder:"OUTCOMES"`
	DryRun      bool          `help:"Write the mails to files in --out, one .eml per user, instead of sending them. For any week; nothing is noted."`
	Out         string        `help:"Directory for --dry-run." type:"path" placeholder:"DIR"`
}

// Validate implements kong's check of a parsed command.
func (c *recapSendCmd) Validate() error {
	switch {
	case c.DryRun != (c.Out != ""):
		return errors.New("--dry-run and --out go together")
	case c.DryRun && len(c.Again) > 0:
		return errors.New("--again changes what is noted, --dry-run notes nothing")
	case !c.DryRun && c.SMTPHost == "":
		return errors.New("--smtp-host is missing (or use --dry-run)")
	case c.Connections < 1 || c.Rate < 0 || c.Attempts < 1 || c.RetryAfter <= 0 || c.Lease < recapmail.MinLease:
		return fmt.Errorf("--connections and --attempts must be positive, --rate and --retry-after not negative, --lease at least %v", recapmail.MinLease)
	}
	return nil
}

// Help implements kong's further help.
func (c *recapSendCmd) Help() string {
	return `Users get a mail when they were active in the week, are not on off, and have chosen it (PATCH /v1/me with email and
recap_mail). Run it by cron on Monday afternoon, and again at any time: whoever has a mail gets no other. It ends when
every mail is sent, refused for good or given up, and prints a line of JSON: sent, refused, given_up and left are of the
whole week, mailed is what this process sent. While the mail server is away it waits. It ends with an error when the
server refuses the sender, or the first 20 mails for good: mend --from or --smtp-..., then add --again refused once.

  commma-api recap send --week 2026-W25 --smtp-host mail.example.org --smtp-user recap \
    --from 'Commma <recap@example.org>' --base-url https://api.example.org
  commma-api recap send --dry-run --out /tmp/mails --from recap@example.org --base-url https://api.example.org`
}

// Run implements the command.
func (c *recapSendCmd) Run(ctx context.Context, p *program) error {
	week, err := c.week(p.clock.Now())
	if err != nil {
		return err
	}
	letter, err := recapmail.ParseLetter(c.From, c.BaseURL)
	if err != nil {
		return fmt.Errorf("--from or --base-url: %w", err)
	}
	return withPool(ctx, p, c.databaseFlags, func(pool *pgxpool.Pool) error {
		step, end := newProgress(ctx, p)
		defer end()
		job, err := recapmail.NewJob(c.config(week, letter, step), recapmail.Deps{
			Queue: recapmail.NewPostgres(pool), Reader: recap.NewReader(pool, p.clock, languages.Keys()),
			Links: recapmail.NewLinks(pool), Clock: p.clock, Log: p.log,
		})
		if err != nil {
			return err
		}
		if c.DryRun {
			written, err := job.DryRun(ctx, c.Out)
			return errors.Join(json.NewEncoder(p.stdout).Encode(dryRun{Week: week.String(), Written: written}), err)
		}
		r, err := job.Run(ctx)
		return errors.Join(json.NewEncoder(p.stdout).Encode(r), hint(err))
	})
}

// hint says what to do about an error that is about the settings.
func hint(err error) error {
	switch {
	case errors.Is(err, recapmail.ErrSenderRefused):
		return fmt.Errorf("%w: check --from and --smtp-user; no mail was charged for it", err)
	case errors.Is(err, recapmail.ErrAllRefused):
		return fmt.Errorf("%w: check --smtp-..., then `recap send --again refused`", err)
	}
	return err
}

// dryRun is the line that a dry run prints.
type dryRun struct {
	Week    string `json:"week"`
	Written int64  `json:"written"` // files
}

// week is the one that is asked for, or the last whole one in UTC.
func (c *recapSendCmd) week(now time.Time) (recap.Week, error) {
	if c.Week == "" {
		return recap.WeekOf(calendar.DayOf(now.UTC())).Previous(), nil
	}
	w, err := recap.ParseWeek(c.Week)
	if err != nil {
		return w, fmt.Errorf("--week: %w", err)
	}
	return w, nil
}

func (c *recapSendCmd) config(week recap.Week, letter recapmail.Letter, step func(done, all int64, what string)) recapmail.Config {
	again := make([]recapmail.Outcome, len(c.Again))
	for i, outcome := range c.Again {
		again[i] = recapmail.Outcome(outcome)
	}
	return recapmail.Config{
		Again: again,
		Week:  week, Letter: letter, Connections: c.Connections, Rate: c.Rate, Lease: c.Lease, Step: step,
		Retries: recapmail.Retries{Most: c.Attempts, First: c.RetryAfter},
		Server: recapmail.Server{
			Host: c.SMTPHost, Port: c.SMTPPort, TLS: recapmail.TLSMode(c.SMTPTLS), User: c.SMTPUser, Password: c.SMTPPass,
		},
	}
}
