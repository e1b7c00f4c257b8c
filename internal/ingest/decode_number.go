package ingest

import (
	"bytes"
	"math"
	"strconv"
)

// parseInteger reads a JSON number, which must be well-formed, as an integer. It takes every spelling of one: 1000, 1e3
// and 1000.0 are the same number, as they are to a client written in JavaScript. What does not fit 64 bits becomes the
// largest or smallest value, never a wrapped one: ranges are the caller's. ok is false for a number that is no integer.
func parseInteger(num []byte) (v int64, ok bool) {
	if v, ok := parsePlain(num); ok {
		return v, true
	}
	negative := num[0] == '-'
	digits, exp := splitNumber(bytes.TrimPrefix(num, []byte("-")))
	switch {
	case len(digits) == 0:
		return 0, true
	case exp < 0:
		return 0, false
	case int64(len(digits))+exp > 18:
		if negative {
			return math.MinInt64, true
		}
		return math.MaxInt64, true
	}
	for _, c := range digits {
		v = v*10 + int64(c-'0')
	}
	for range exp {
		v *= 10
	}
	if negative {
		v = -v
	}
	return v, true
}

// parsePlain reads what clients send: a few digits, perhaps a sign.
func parsePlain(num []byte) (v int64, ok bool) {
	digits := num
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	if len(digits) < len(num) {
		v = -v
	}
	return v, true
}

// splitNumber writes an unsigned number as digits times ten to the power of exp, without zeros at either end of digits.
func splitNumber(num []byte) (digits []byte, exp int64) {
	mantissa := num
	if i := bytes.IndexAny(num, "eE"); i >= 0 {
		mantissa, exp = num[:i], parseExponent(num[i+1:])
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits = append(append(make([]byte, 0, len(num)), whole...), fraction...)
	exp -= int64(len(fraction))
	trimmed := bytes.TrimRight(digits, "0")
	exp += int64(len(digits) - len(trimmed))
	return bytes.TrimLeft(trimmed, "0"), exp
}

// parseExponent reads an exponent. One that does not fit is cut to a size that no body's number of digits can outweigh.
func parseExponent(s []byte) int64 {
	const beyond = math.MaxInt32
	n, err := strconv.ParseInt(string(bytes.TrimPrefix(s, []byte("+"))), 10, 64)
	if err != nil && s[0] == '-' {
		return -beyond
	}
	if err != nil {
		return beyond
	}
	return max(min(n, beyond), -beyond)
}
