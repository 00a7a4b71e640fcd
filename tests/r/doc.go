// Package r holds what a program that embeds the supervisor may rely on when it
// opens an R session. Everything here goes through the public API, the real stage
// and the user's own R, with the shim that is delivered; nothing looks at a frame.
//
// The tests are for Linux, where everything is promised. TURNSTONE_ROUNDS=n makes
// races and the soak n times as long.
package r
