package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// An update of go-enry must not pass without its effect on the keys being seen and committed.
func TestPinnedListIsCurrent(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../linguist.tsv")
	require.NoError(t, err)
	require.Equal(t, string(table()), string(committed), "run: go generate ./internal/languages")
}
