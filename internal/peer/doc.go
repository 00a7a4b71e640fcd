// Package peer says who is at the other end of a Unix socket. The kernel names the user and the
// process. Besides, a daemon proves that it has its user's key, which no sandboxed session can
// read: a session runs as the same user, so the kernel's word alone does not tell them apart.
//
// A client sends a nonce. The daemon answers with an HMAC over that nonce, its address, and the
// client's process as the kernel names it. So an answer is of no use at another address, and a
// program in between cannot pass it on: the daemon sees the process of that program.
//
// The package starts no goroutine. On Windows the owner of a named pipe is the proof, so the package has only
// names there.
package peer
