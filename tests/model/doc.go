// Package model is what the rules of time say, in the plainest form: no files, no servers, no clock, nothing shared with
// the program under test, and no care for speed. Everything is computed anew from the set of accepted events.
//
// Instants are seconds since the epoch unless they are named ms. Languages are keys: resolving names is not part of it.
package model
