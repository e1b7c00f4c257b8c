package account

import "github.com/commma/commma/internal/zones"

// ValidateZone says whether name is a time zone of the IANA database: its name of today, or an older one that it still
// knows. It is an *InvalidError if not.
func ValidateZone(name string) error {
	if _, err := zones.Load(name); err != nil {
		return &InvalidError{Field: "timezone", Message: "must be an IANA time zone, such as Europe/Berlin"}
	}
	return nil
}
