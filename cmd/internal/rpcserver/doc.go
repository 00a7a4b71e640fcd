// Package rpcserver serves JSON-RPC in lines, on package jsonrpc2. One [Server] dispatches for all
// of its connections, whatever their transport, so their answers have one form.
//
// A connection carries many calls at once. Its reader continues while handlers run, so a call can
// always be cancelled, and others can be made. A malformed line gets an error as its answer and
// never ends a connection. A notification is never answered.
//
// A line that is not JSON-RPC, but an object with a type, belongs to the control plane; see
// [Server.Control].
//
// # Goroutines
//
//	name     started by   ends when                          owns
//	reader   Serve        the stream ends; it is Serve       reading, and the start of calls
//	writer   Serve        everything is written, or dropped  writing
//	call     the reader   its handler returns                its answer
//
// [Server.Serve] returns when all of them have ended.
//
// # Locks
//
// Request.mu may be held when a lock of package jsonrpc2 is taken: progress is queued under it.
package rpcserver
