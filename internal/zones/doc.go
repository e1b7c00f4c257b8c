// Package zones reads time zones from a copy of the IANA database that is part of the program, and from nothing else.
//
// Which local day a second belongs to is a fact that is kept for ever, and every process must find the same one. The
// standard library's LoadLocation asks the machine first (ZONEINFO, /usr/share/zoneinfo), so two machines with packages
// of different age could cut the same session differently, and a name could be known to one and not to the other.
//
// The copy is zoneinfo.zip of a Go release: the compiled data of release 2025c of the IANA Time Zone Database, which is
// in the public domain, with all names that it still links for compatibility. `go generate` takes the one of the Go
// release in use. A newer copy is a change of the rules: processes of both kinds should not run for long together.
package zones
