// Package rpcserver serves JSON-RPC in lines, on top of package jsonrpc2. One [Server] dispatches
// the calls of all its connections, whatever their transport, so their answers have one form.
//
// A connection carries many calls at once. Its reader continues while handlers run, so a call can
// be cancelled at any time, and further calls can be made. A malformed line gets an error as its
// answer and never ends a connection. A notification is never answered.
//
// A line that is not JSON-RPC, but is an object with a type, belongs to the control plane. See
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
// Request.mu may be held while a lock of package jsonrpc2 is taken, because progress is queued
// under it.
package rpcserver
