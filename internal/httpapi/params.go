package httpapi

import (
	"math"
	"strconv"
)

// maxLimit is the longest page of anything, by the contract.
const maxLimit = 100

// value is a parameter's value; one that is empty is as if absent, as forms send it.
func value(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// limitOf reads a page length as the published server does: what is not a number is the default, fractions are cut
// off, and what lies outside 1 to maxLimit is moved to the nearer end.
func limitOf(raw *string, byDefault int) int { return clampOf(raw, byDefault, maxLimit) }

// clampOf is limitOf with another upper end.
func clampOf(raw *string, byDefault, most int) int {
	f, err := strconv.ParseFloat(value(raw), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return byDefault
	}
	return int(math.Trunc(min(max(f, 1), float64(most))))
}
