package main

import (
	_ "embed"
	"fmt"
	"os"
	"text/template"

	"github.com/google/uuid"
)

//go:embed welcome.tmpl
var welcomeText string

var welcomeTemplate = template.Must(template.New("welcome").Parse(welcomeText))

// welcome is what dev tells its user to try.
type welcome struct {
	Demo    demoUser
	Base    string // URL of the API
	DataDir string
	Private bool // the servers are ours, and the file env says where they are
	EventID string
	Program string // path of this program
}

func printWelcome(p *program, w welcome) error {
	w.EventID = uuid.NewString()
	w.Program = "commma-api"
	if path, err := os.Executable(); err == nil {
		w.Program = path
	}
	if err := welcomeTemplate.Execute(p.stdout, w); err != nil {
		return fmt.Errorf("print welcome: %w", err)
	}
	return nil
}
