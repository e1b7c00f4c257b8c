// Package httpapi is the HTTP interface of Commma: routes, middleware and the error envelope, and nothing else. A handler
// reads the request, calls one domain package and writes the answer; it knows neither SQL nor Redis nor a business rule.
// The contract is api/openapi.yaml, from which the types and the server interface in package api below are generated.
//
// What must hold:
//
//   - Every request is answered, and in time. The request's context ends long before the clients give up, everything a
//     handler waits for watches it, and the server's own timeouts bound what a context cannot: reading and writing.
//   - Every error is the envelope, made in one place (errors.go). What is not known there is the service's fault: the
//     client sees a request id, the log sees the error, once.
//   - Nothing a client sent reaches a log or a metric: no body, path, query, header, token or address. Routes are named
//     by their pattern and methods by a fixed list.
//   - A body is read only after its sender was admitted.
//   - Nothing outlives a change of mode: what may be kept at all must be asked about each time (no-cache), what can hold
//     paths is for its viewer alone, and what nobody has decided about is not kept (no-store).
package httpapi
