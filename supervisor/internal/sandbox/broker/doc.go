// Package broker makes system calls on behalf of the programs of a session, or refuses them. The
// filter of package seccomp reports these calls to the monitor: those that change names, connect
// sockets, or open files where some are hidden.
//
// If the kernel continued a program's own call, a second thread could change a path or an address
// after the check. So the broker reads the arguments once, asks package nameguard about the names,
// makes the call with the rights of the user, and answers with its result. A call that the user
// could allow is held until the question about it is closed.
//
// # Goroutines
//
//	name        started by       ends when
//	calls       Serve            no process of the session is left
//	slow call   calls            the call is answered; at most maxSlowCalls
//	question    a held call      the question is closed, or no program waits for it
//	drafts      the first draft  no program has a draft open
//
// The threads of calls, slow calls and drafts are locked, because their rights and namespaces differ
// from those of other threads.
//
// # Locks
//
// sockDiagMu is held over an answer of the kernel.
package broker
