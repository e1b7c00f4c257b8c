package zones

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/commma/commma/internal/calendar"
)

//go:generate go run ./gen

//go:embed zoneinfo.zip
var archive []byte

// ErrUnknown means that a name is not one of a time zone in the embedded database.
var ErrUnknown = errors.New("unknown time zone")

// maxName bounds a name in bytes. The longest that the database has is 32.
const maxName = 64

// files are the zones of the archive by name. The archive is opened once; it is part of the program, so it can be read.
var files = sync.OnceValues(func() (map[string]*zip.File, error) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("open zones: %w", err)
	}
	byName := make(map[string]*zip.File, len(r.File))
	for _, f := range r.File {
		if !strings.HasSuffix(f.Name, "/") {
			byName[f.Name] = f
		}
	}
	return byName, nil
})

// loaded are the zones that were asked for, by name: at most as many as the archive has, since nothing else gets in.
var loaded sync.Map

// Load is the time zone with an IANA name: one of today, or an older one that the database still knows (US/Pacific). Case
// matters. Everything else is ErrUnknown, names of files and of the machine's own zone among it.
func Load(name string) (*time.Location, error) {
	if loc, ok := loaded.Load(name); ok {
		return loc.(*time.Location), nil
	}
	if !plausible(name) {
		return nil, ErrUnknown
	}
	loc, err := read(name)
	if err != nil {
		return nil, err
	}
	loaded.Store(name, loc)
	return loc, nil
}

// LoadOrUTC is Load for where a name that this program does not know is no reason to fail: it is UTC then.
func LoadOrUTC(name string) *time.Location {
	loc, err := Load(name)
	if err != nil {
		return time.UTC
	}
	return loc
}

// DayAt is the local date at an instant in the zone with a name, and the UTC date if the name is unknown.
func DayAt(t time.Time, name string) calendar.Day { return calendar.DayOf(t.In(LoadOrUTC(name))) }

// plausible refuses what is no zone of any place wherever it is found: files that machines keep beside their zones. Which
// of the other names exist, the archive knows; names are looked up there and never opened as paths.
func plausible(name string) bool {
	switch name {
	case "", "Local", "localtime", "Factory": // Factory is in the archive: it says "not configured"
		return false
	}
	return len(name) <= maxName && !strings.HasPrefix(name, "posix") && !strings.HasPrefix(name, "right/") &&
		!strings.HasPrefix(name, "/") && !strings.Contains(name, "..")
}

func read(name string) (*time.Location, error) {
	raw, err := data(name)
	if err != nil {
		return nil, err
	}
	loc, err := time.LoadLocationFromTZData(name, raw)
	if err != nil {
		return nil, fmt.Errorf("parse zone: %w", err)
	}
	return loc, nil
}

// data is a zone's file.
func data(name string) ([]byte, error) {
	byName, err := files()
	if err != nil {
		return nil, err
	}
	f, ok := byName[name]
	if !ok {
		return nil, ErrUnknown
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("open zone: %w", err)
	}
	defer func() { _ = r.Close() }()
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read zone: %w", err)
	}
	return raw, nil
}
