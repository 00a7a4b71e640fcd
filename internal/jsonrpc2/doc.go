// Package jsonline is JSON-RPC 2.0 in lines: one JSON value on each line, in both
// directions, over any stream of bytes. It is for both ends: a [Conn] calls and is
// called.
//
//	c := jsonline.New(stream, &jsonline.Options{MaxLine: 16 << 20, StallTimeout: 30 * time.Second})
//	go c.Read()
//	result, err := c.Call(ctx, "server/info", nil)
//
// [Reader] and [Decode] are its parts, for programs that handle the messages in another way. A
// malformed message costs its line, and costs the connection only if the receiver chooses that.
//
// A cancel is the notification [MethodCancelled], as in the Model Context Protocol. It
// names the id of the request as the requester wrote it.
//
// # Goroutines
//
//	name     started by  ends when                          owns
//	reader   the caller  the stream ends                    Read, and everything that Options names
//	writer   New         everything is written, or dropped  writing
package jsonrpc2
