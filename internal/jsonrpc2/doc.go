// Package jsonrpc2 implements JSON-RPC 2.0 with one JSON value per line, in both directions, over
// any byte stream. It serves both ends: a [Conn] makes calls and receives them.
//
//	c := jsonrpc2.New(stream, &jsonrpc2.Options{MaxLine: 16 << 20, StallTimeout: 30 * time.Second})
//	go c.Read()
//	answer, err := c.Call(ctx, "server/info", nil)
//
// Bytes can follow a line: those of a [Buffered] value, whose number the line has as "buffer".
//
// Programs that handle messages in another way use its parts, [Reader] and [Decode]. A malformed
// message costs only its line; the receiver decides whether it also costs the connection.
//
// A cancel is the notification [MethodCancelled], as in the Model Context Protocol. It names the id
// of the request as the requester wrote it.
//
// # One package for both ends
//
// The daemon, its client, MCP on standard streams and repl doctor all exchange JSON-RPC in lines.
// With one package, both ends have the same bounds. MCP uses only [Reader] and [Decode], because
// the SDK has its own connection.
//
// Separate implementations were rejected, because their promises differed: one answered a line that
// was too long without its id, and the caller waited forever. Libraries were rejected:
// golang.org/x/exp/jsonrpc2 promises no stability, sourcegraph/jsonrpc2 has neither cancels nor
// bounds, and the SDK's is internal.
//
// # Goroutines
//
//	name     started by  ends when                          owns
//	reader   the caller  the stream ends                    Read, and the callbacks in Options
//	writer   New         everything is written, or dropped  writing
package jsonrpc2
