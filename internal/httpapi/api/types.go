// Package api holds the wire types and the server interface that oapi-codegen generates from api/openapi.yaml, and the
// few types that it cannot generate.
package api

import "time"

// instantFormat is ISO 8601 in UTC with exactly three decimals, which is what the web clients parse.
const instantFormat = "2006-01-02T15:04:05.000Z"

// Instant is an instant on the wire: UTC, milliseconds, Z. What is finer than a millisecond is cut off.
type Instant time.Time

// MarshalText implements encoding.TextMarshaler.
func (t Instant) MarshalText() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, instantFormat), nil
}

// String is the instant as it goes over the wire.
func (t Instant) String() string { return time.Time(t).UTC().Format(instantFormat) }

// UnmarshalText implements encoding.TextUnmarshaler; it takes any RFC 3339 instant.
func (t *Instant) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return err
	}
	*t = Instant(v)
	return nil
}
