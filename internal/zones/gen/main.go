// Command gen copies the time zones of the Go release in use to zoneinfo.zip, and says which IANA release they are.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find the Go release: %w", err)
	}
	from := filepath.Join(strings.TrimSpace(string(root)), "lib", "time")
	data, err := os.ReadFile(filepath.Join(from, "zoneinfo.zip"))
	if err != nil {
		return fmt.Errorf("read zones: %w", err)
	}
	// The script that made the archive is where Go notes the release.
	script, err := os.ReadFile(filepath.Join(from, "update.bash"))
	if err != nil {
		return fmt.Errorf("read release of zones: %w", err)
	}
	release := regexp.MustCompile(`(?m)^DATA=(\w+)$`).FindSubmatch(script)
	if release == nil {
		return fmt.Errorf("read release of zones: update.bash does not name it")
	}
	fmt.Printf("zones of IANA release %s: doc.go must name it\n", release[1])
	return os.WriteFile("zoneinfo.zip", data, 0o644)
}
