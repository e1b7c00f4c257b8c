package languages

import (
	_ "embed"
	"strings"
	"sync"
)

//go:generate go run ./gen -out linguist.tsv

//go:embed linguist.tsv
var linguistTSV string

// table is the pinned list in the form that lookups want. It is never written after it was built.
type table struct {
	names map[string]string // key -> display name
	keys  map[string]string // folded name or alias -> key
}

// pinned is the table, built on first use.
var pinned = sync.OnceValue(func() *table {
	t := &table{names: make(map[string]string, 1024), keys: make(map[string]string, 2048)}
	for line := range strings.Lines(linguistTSV) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, aliases, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		key := fold(name)
		t.names[key] = name
		for alias := range strings.SplitSeq(aliases, "\t") {
			t.alias(alias, key)
		}
	}
	for _, e := range editorNames {
		for _, alias := range e.names {
			t.alias(alias, fold(e.language))
		}
	}
	// Names come last: whatever an alias says, a language's own name is its key. This is why a key resolves to itself.
	for key := range t.names {
		t.keys[key] = key
	}
	return t
})

func (t *table) alias(alias, key string) {
	if a := fold(alias); a != "" {
		t.keys[a] = key
	}
}
