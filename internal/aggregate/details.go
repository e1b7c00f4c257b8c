package aggregate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-faster/jx"

	"github.com/commma/commma/internal/activity"
)

// maxFiles is how many files a session's details list.
const maxFiles = 100

// FileChanges is a file of a session and how much was typed in it.
type FileChanges struct {
	Path    string `json:"path"`
	Changes int64  `json:"changes"` // keystrokes
}

// details are what a session shows to those who may see paths, as the JSON that is stored; nil for what it has none of.
type details struct {
	files, keyCounts []byte
}

func detailsOf(events []activity.Event) (details, error) {
	files := make(map[string]int64)
	keys := make(map[string]int64)
	for i := range events {
		if events[i].File != "" {
			files[events[i].File] += int64(events[i].Keystrokes)
		}
		if err := addKeyCounts(keys, events[i].KeyFreq); err != nil {
			return details{}, err
		}
	}
	var d details
	var err error
	if len(files) > 0 {
		if d.files, err = json.Marshal(topFiles(files)); err != nil {
			return details{}, fmt.Errorf("encode files: %w", err)
		}
	}
	if len(keys) > 0 {
		if d.keyCounts, err = json.Marshal(keys); err != nil {
			return details{}, fmt.Errorf("encode key counts: %w", err)
		}
	}
	return d, nil
}

// topFiles are the files with the most changes, most first, ties by path.
func topFiles(changes map[string]int64) []FileChanges {
	files := make([]FileChanges, 0, len(changes))
	for path, n := range changes {
		files = append(files, FileChanges{path, n})
	}
	slices.SortFunc(files, func(a, b FileChanges) int {
		return cmp.Or(cmp.Compare(b.Changes, a.Changes), cmp.Compare(a.Path, b.Path))
	})
	return files[:min(len(files), maxFiles)]
}

// addKeyCounts adds an event's canonical key counts to sums, which are 64-bit: a label may be pressed more than 2^31
// times in a session.
func addKeyCounts(sums map[string]int64, canonical string) error {
	if canonical == "" {
		return nil
	}
	err := jx.DecodeStr(canonical).ObjBytes(func(d *jx.Decoder, key []byte) error {
		n, err := d.Int64()
		sums[string(key)] += n
		return err
	})
	if err != nil {
		// The cause could quote what was read.
		return fmt.Errorf("read key counts: %w", errKeyCounts)
	}
	return nil
}
