// Package web says what the HTTP server gets of an app.App. It is apart from app so that app knows nothing of HTTP.
package web

import (
	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/httpapi"
)

// Deps are the server's, out of a. A test may change single ones before it makes its server.
func Deps(a *app.App, metrics httpapi.MetricsRegistry) httpapi.Deps {
	return httpapi.Deps{
		Admission:   a.Admission,
		Events:      a.Events,
		Accounts:    a.Accounts,
		Boards:      a.Boards,
		Circles:     a.Circles,
		Sessions:    a.Sessions,
		Engaged:     a.Engagement,
		Following:   a.Following,
		Groups:      a.Groups,
		Memberships: a.Groups,
		Profiles:    a.Profiles,
		Views:       a.Views,
		ViewDays:    a.ViewDays,
		LastSeen:    a.LastSeen,
		Today:       a.Today,
		Exports:     a.Exports,
		Recaps:      a.Recaps,
		Links:       a.Links,
		Postgres:    a.DB,
		Redis:       a.Health,
		Languages:   a.Languages,
		Metrics:     metrics,
		Clock:       a.Clock,
		Logger:      a.Log,
	}
}
