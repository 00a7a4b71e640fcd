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
// # Connects
//
// A read-only mount does not prevent a connect to a socket in it, such as Docker's. So the broker
// connects a copy of the socket, and only if a process of the session listens at the other end.
// After a check alone, a second thread could change the address or the descriptor before the kernel
// goes on. A test won that race at the first attempt. A check of Unix sockets alone loses the same
// race, because a second thread can change the kind of a descriptor. Hidden directories of sockets
// do not help: /run has files that programs need, and sockets are everywhere. Without any Unix
// socket, local servers and multiprocessing would fail.
//
// # Denials
//
// A program in a sandbox gets "Read-only file system", or hides even that. So the broker reports each
// refused write before the program continues, and thus within its turn: at most 64 different ones.
// The error text of programs is no source, since each words it differently. Tracing takes the place
// of debuggers and slows every call. fanotify and the kernel's audit log need rights that users do
// not have. An open for writing costs 20 µs more. An open for reading costs nothing more, except
// where the session hides files. openat2 does not exist for a session, because a filter cannot see
// its flags.
//
// # Missing names
//
// Programs outside trust names such as .envrc and .vscode at the top of a repository. No mount can
// protect a name that does not exist yet. So the broker makes every new name itself, in an open
// directory, if the name is not protected. An empty file in its place, as in other sandboxes, would
// appear in the user's tree. Names that are removed once they appear exist for some microseconds,
// again and again. With read-only directories and each child mounted writable, a rename between two
// children fails. Landlock rules cannot be widened for a directory that is granted later. An open
// with O_CREAT costs 10 µs more.
//
// # Locks
//
// sockDiagMu is held over an answer of the kernel.
package broker
