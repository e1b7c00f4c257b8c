package languages

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		key    string
		listed bool
	}{
		{"typescript", "typescript", true},
		{"TypeScript", "typescript", true},
		{" TypeScript ", "typescript", true},
		{"ts", "typescript", true},
		{"js", "javascript", true},
		{"JavaScript", "javascript", true},
		{"C", "c", true},
		{"C++", "c++", true},
		{"cpp", "c++", true},
		{"C#", "c#", true},
		{"csharp", "c#", true},
		{"Visual  Basic\u00a0.NET", "visual basic .net", true},
		{"visual-basic-.net", "visual basic .net", true},
		{"vb", "visual basic .net", true},
		{"Shell", "shell", true},
		{"shellscript", "shell", true},
		{"Bash", "shell", true},
		{"typescriptreact", "tsx", true},
		{"javascriptreact", "javascript", true},
		{"objective-c", "objective-c", true},
		{"objective-cpp", "objective-c++", true},
		{"jsonc", "json with comments", true},
		{"dockerfile", "dockerfile", true},
		{"Docker", "dockerfile", true},
		{"plaintext", "text", true},
		{"git-commit", "git commit", true},
		{"vue-html", "vue", true},
		{"perl6", "raku", true},
		{"FortranFreeForm", "fortran free form", true},
		{"", Unknown, false},
		{" \t\u2003\u00a0", Unknown, false},
		{"\x00", Unknown, false},
		{"unknown", Unknown, false},
		{"Unknown", Unknown, false},
		{"git-rebase", "git-rebase", false},
		{"  My\t\u3000Own \x00 Lang ", "my own lang", false},
		{"ÀÉÎ", "àéî", false},
		{"a\xffb", "a\ufffdb", false},
	}
	r := New()
	for _, tt := range tests {
		key, listed := r.Resolve(tt.name)
		require.Equal(t, tt.key, key, "%q", tt.name)
		require.Equal(t, tt.listed, listed, "%q", tt.name)
	}
}

// What VS Code's page "Language Identifiers" lists. All but git-rebase, which Linguist has no language for, have a board.
func TestResolveVSCodeIdentifiers(t *testing.T) {
	t.Parallel()
	r := New()
	for id := range strings.FieldsSeq(`abap bat bibtex clojure coffeescript c cpp csharp cuda-cpp css d dart diff
		dockercompose dockerfile elixir erlang fsharp git-commit go groovy handlebars haml haskell html ini java javascript
		javascriptreact json jsonc jsonl julia latex less lua makefile markdown objective-c objective-cpp ocaml pascal perl
		perl6 php plaintext powershell jade pug properties python r raku razor restructuredtext ruby rust scss sass
		shaderlab shellscript slim sql stylus svelte swift typescript typescriptreact tex vb vue vue-html xml xsl yaml`) {
		_, listed := r.Resolve(id)
		require.True(t, listed, id)
	}
}

// What the Commma command-line client sends, by the extension of the file.
func TestResolveCommandLineClient(t *testing.T) {
	t.Parallel()
	r := New()
	for id := range strings.FieldsSeq(`typescript typescriptreact javascript javascriptreact json python ruby go rust java
		kotlin swift c cpp csharp php scala clojure elixir erlang haskell ocaml dart lua r julia shellscript powershell sql
		html css scss sass less vue svelte astro markdown mdx yaml toml terraform zig nim proto graphql`) {
		_, listed := r.Resolve(id)
		require.True(t, listed, id)
	}
}

func TestFoldOnly(t *testing.T) {
	t.Parallel()
	r := FoldOnly()
	for name, want := range map[string]string{
		"JS": "js", " Go  Module ": "go module", "Bash": "bash", "": Unknown, "C++": "c++", "Typescript": "typescript",
	} {
		key, listed := r.Resolve(name)
		require.Equal(t, want, key)
		require.Equal(t, Listed(want), listed)
	}
}

func TestListedAndDisplayName(t *testing.T) {
	t.Parallel()
	require.True(t, Listed("c++"))
	require.False(t, Listed("cpp"), "an alias is not a key")
	require.False(t, Listed("C++"), "a name is not a key")
	require.False(t, Listed(Unknown))
	require.False(t, Listed(""))
	require.Equal(t, "C++", DisplayName("c++"))
	require.Equal(t, "Visual Basic .NET", DisplayName("visual basic .net"))
	require.Equal(t, "my own lang", DisplayName("my own lang"))
}

func TestTable(t *testing.T) {
	t.Parallel()
	require.Greater(t, len(pinned().names), 800, "the list is whole")
	require.Equal(t, strings.Count(linguistTSV, "\n")-3, len(pinned().names), "no two languages share a key")
	r := New()
	for key, name := range pinned().names {
		require.LessOrEqual(t, len(key), MaxKeyBytes)
		got, listed := r.Resolve(name)
		require.Equal(t, key, got)
		require.True(t, listed)
		got, _ = r.Resolve(key)
		require.Equal(t, key, got)
		require.Equal(t, name, DisplayName(key))
	}
	for alias, key := range pinned().keys {
		require.Contains(t, pinned().names, key)
		require.Equal(t, alias, fold(alias))
	}
}

// The hand-kept names must be needed (else they would hide what Linguist says of them) and lead somewhere.
func TestEditorNamesAddToTheList(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for line := range strings.Lines(linguistTSV) {
		for field := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), "\t") {
			listed[fold(field)] = true
		}
	}
	seen := map[string]bool{}
	for _, e := range editorNames {
		require.Equal(t, e.language, DisplayName(fold(e.language)), "a language of the list")
		for _, name := range e.names {
			require.False(t, listed[fold(name)], "%q is Linguist's already", name)
			require.False(t, seen[fold(name)], "%q stands here twice", name)
			seen[fold(name)] = true
		}
	}
}

// Lower case that is not stable would make a key that does not resolve to itself.
func TestFoldIsStableForEveryCodePoint(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		once := fold(string(r))
		if once != fold(once) {
			t.Fatalf("%U folds to %q, which folds to %q", r, once, fold(once))
		}
	}
}

func checkKey(t require.TestingT, r *Resolver, name string) {
	key, listed := r.Resolve(name)
	require.NotEmpty(t, key)
	require.True(t, utf8.ValidString(key), "%q", key)
	require.NotContains(t, key, "\x00")
	require.LessOrEqual(t, len(key), MaxKeyBytes)
	require.Equal(t, strings.TrimSpace(key), key)
	require.NotContains(t, key, "  ")
	again, listedAgain := r.Resolve(key)
	require.Equal(t, key, again, "a key resolves to itself")
	require.Equal(t, listed, listedAgain)
	require.Equal(t, Listed(key), listed)
	upper, _ := r.Resolve("\u2003" + strings.ToUpper(asciiOnly(name)) + " ")
	lower, _ := r.Resolve(asciiOnly(name))
	require.Equal(t, lower, upper, "case and outer blanks do not matter")
}

func asciiOnly(s string) string {
	return strings.Map(func(r rune) rune {
		if r > 126 || r < ' ' {
			return -1
		}
		return r
	}, s[:min(len(s), 100)])
}

func TestResolveProperties(t *testing.T) {
	t.Parallel()
	with, without := New(), FoldOnly()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.String(),
			rapid.StringOfN(rapid.RuneFrom([]rune{' ', 'A', 'ß', '\u2003', 'Ⱥ', '𐐀', 0}), 0, 400, -1),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		).Draw(t, "name")
		checkKey(t, with, name)
		checkKey(t, without, name)
	})
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"", "C++", " TypeScript ", "\xff\x00", strings.Repeat("Ⱥ ", 200), "unknown"} {
		f.Add(s)
	}
	with, without := New(), FoldOnly()
	f.Fuzz(func(t *testing.T, name string) {
		checkKey(t, with, name)
		checkKey(t, without, name)
	})
}

func BenchmarkResolve(b *testing.B) {
	r := New()
	for _, name := range []string{"typescript", "TypeScript", "my own lang"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Resolve(name)
			}
		})
	}
}
