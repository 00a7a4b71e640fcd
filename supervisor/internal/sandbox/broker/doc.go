// Package broker makes system calls on behalf of the programs of a session, or refuses them. The
// filter of package seccomp reports these calls to the monitor. They change names, connect sockets,
// or open files where some are hidden.
//
// If the kernel continued a program's own call, a second thread could change a path or an address
// after the check. So the broker reads the arguments once, and asks package nameguard about the
// names. Then it makes the call itself, with the rights of the user, and answers with its result. A
// call that the user could allow is held until the question about it is closed.
//
// # Goroutines
//
//	name        started by       ends when
//	calls       Serve            no process of the session is left
//	slow call   calls            the call is answered; at most maxSlowCalls
//	question    a held call      the question is closed, or no program waits for it
//	drafts      the first draft  no program has a draft open
//
// Calls, slow calls and drafts run on locked threads, because their rights and namespaces differ
// from those of other threads.
//
// # Connects
//
// A read-only mount does not prevent a connect to a socket in it, such as Docker's. So the broker
// connects a copy of the socket itself. For a Unix socket it does so only if a process of the
// session listens at the other end.
//
// A check before the kernel continues the program's own call was rejected. A second thread can
// change the address or the descriptor after the check; a test won that race at the first attempt.
// Checking only Unix sockets was rejected, because a second thread can also change the kind of a
// descriptor. Hiding the directories of sockets was rejected: /run has files that programs need,
// and sockets are everywhere. Forbidding all Unix sockets was rejected, because local servers and
// multiprocessing would fail.
//
// # Denials
//
// A refused write gives a program the error "Read-only file system", which the program may not even
// show. So the broker reports each refused write before the program continues, and thus within its
// turn. Until the next turn it reports at most 64 different ones. An open for writing costs 20 µs
// more. An open for reading costs nothing more, except where the session hides files. openat2 does
// not exist for a session, because a filter cannot see its flags.
//
// Guessing denials from the output of programs was rejected, since each program words the error
// differently. Tracing was rejected: it excludes debuggers and slows every call. fanotify and the
// kernel's audit log were rejected, because they need rights that users do not have.
//
// # Missing names
//
// Programs outside trust names such as .envrc and .vscode at the top of a repository. A mount
// cannot protect a name that does not exist yet. So the broker makes every new name itself, in an
// open directory, if the name is not protected. An open with O_CREAT costs 10 µs more.
//
// An empty file in place of each protected name was rejected, because it would appear in the user's
// tree. Removing such names when they appear was rejected: each would exist for some microseconds,
// again and again. Read-only directories whose children are mounted writable were rejected, because
// a rename between two children fails. Landlock was rejected, because its rules cannot be widened
// for a directory that is granted later.
//
// # Locks
//
// sockDiagMu is held while the kernel answers.
package broker
