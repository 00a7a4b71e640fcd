// Package rpc serves JSON-RPC over lines, on package jsonline. One [Server] dispatches
// for all of its connections, whatever carries them, so their answers have one shape.
//
// A connection carries many calls at once. Its reader goes on while handlers run, so a call can
// always be cancelled, and others made. A malformed line gets an error as its answer and never
// ends a connection. A notification is never answered.
//
// A line that is no JSON-RPC but an object with a type belongs to the control
// plane, see [Server.Control].
//
// # Goroutines
//
//	name     started by   ends when                          owns
//	reader   Serve        the stream ends; Serve is it       reading, and the start of calls
//	writer   Serve        everything is written, or broken   writing
//	call     the reader   its handler returns                its answer
//
// Serve returns when all of them have ended.
package rpcserver
