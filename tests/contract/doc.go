// Package contract holds the server to api/openapi.yaml: every example of every operation is sent to a server that is wired as
// the program is, over a real Postgres and Redis, and everything about the answer must be as the document says.
//
// The document says what is sent; a new operation needs examples in it and mostly nothing here. What an example names must
// exist, though, and each operation finds a world of its own, with other ids. So the values that stand for something are
// replaced: see stands in cast_test.go for them, and callers for operations that not just anybody may ask for.
package contract
