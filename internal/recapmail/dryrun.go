package recapmail

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/recap"
)

// DryRun writes the mails of a week, of any week, to files that only their owner can read, and sends and notes nothing. It
// says how many.
func (j *Job) DryRun(ctx context.Context, dir string) (written int64, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("make directory for mails: %w", err)
	}
	err = j.Reader.Walk(ctx, j.cfg.Week, uuid.Nil, func(r *recap.Addressed) error {
		if !r.Wanted {
			return nil
		}
		if err := j.writeFile(ctx, dir, r); err != nil {
			return err
		}
		written++
		return nil
	}, func() error {
		j.cfg.Step(written, -1, "mails")
		return nil
	})
	return written, err
}

func (j *Job) writeFile(ctx context.Context, dir string, r *recap.Addressed) (err error) {
	link, err := j.Links.URL(ctx, j.cfg.Letter.Base, r.UserID)
	if err != nil {
		return err
	}
	m, err := j.cfg.Letter.Compose(r, link, j.Clock.Now())
	if err != nil {
		return err
	}
	// The handle's case counts, and not every file system knows that.
	f, err := os.OpenFile(filepath.Join(dir, r.UserID.String()+".eml"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write mail: %w", err)
	}
	if _, err = m.WriteTo(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("write mail: %w", err)
	}
	return f.Close()
}
