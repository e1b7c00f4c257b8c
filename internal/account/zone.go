package account

import (
	"regexp"
	"time"

	_ "time/tzdata" // zones must not depend on the machine
)

// zoneName is what names of zones look like in the IANA database, aliases included: at most three parts, none of which
// is a path's.
var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9][A-Za-z0-9+_-]*){0,2}$`)

// notZones are files and folders beside the zones of a Unix machine: the machine's own zone, and copies of all zones, of
// which "right" counts leap seconds.
var notZones = regexp.MustCompile(`^(Local|localtime|posixrules|Factory|(posix|right)/.*)$`)

// ValidateZone says whether name is a time zone of the IANA database: its name of today, or an older one that it still
// knows. It is an *InvalidError if not.
func ValidateZone(name string) error {
	if len(name) > 64 || !zoneName.MatchString(name) || notZones.MatchString(name) {
		return invalidZone()
	}
	if _, err := time.LoadLocation(name); err != nil {
		return invalidZone()
	}
	return nil
}

func invalidZone() error {
	return &InvalidError{Field: "timezone", Message: "must be an IANA time zone, such as Europe/Berlin"}
}
