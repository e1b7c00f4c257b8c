// Package app wires the domain: it takes open servers and returns every service, each knowing what it needs of the others.
// It is the one place that does so, for the program and for whatever tests the program as a whole.
//
// What concerns several domains is composed here too, since they do not know one another: that what people did to a session
// follows it (see NewFinalizer), what must happen to a user in all of them in one transaction (see accounts), and what all
// of them keep of a user (see newExporter): a domain with tables of users has a line there.
//
// It knows nothing of HTTP, so that the server's own tests may use it; package web beside it says what the server gets of an
// App. A new service is a field of App with its line in New, and a line in web.
//
// New starts nothing and asks nothing of the servers. What has to run, the caller runs: App.Events, App.Counters, and what
// the aggregator, the publisher and the flusher do in cycles.
package app
