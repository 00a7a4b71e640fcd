// Package nameguard decides whether a session may make, write, move or remove a name. It looks at
// what the name means at the time of the call. It protects hooks and settings of repositories,
// hidden files, and mount points.
//
// Mounts protect only files that existed when the session started. The guard looks again at each
// call, so it also protects a repository that was made a moment ago. It makes one kind of call for
// the session itself: it replaces settings of git by a copy, after package gitconfig has checked
// them.
//
// Package broker knows which call is made, and answers it with the decision of the guard. The
// package starts no goroutines.
//
// # Repositories that the session made
//
// A repository that a session makes is dangerous as well. git asks a repository inside another for
// its state, and the session could name a program as core.fsmonitor of the inner one. Then git
// status outside would run the program, also from a prompt or an editor. A repository is made in
// many steps and by any program. So the guard checks hooks and settings when the last part of a
// repository appears, whichever program made the other parts. As a result, pre-commit install fails
// inside a sandbox.
//
// A notice that names such repositories was rejected: the user's prompt runs git before the user
// reads it. Forbidding every program to write settings in place was rejected, because cp -r and tar
// would fail. Allowing writes until a repository is complete was rejected: the user's own git init
// would complete a directory that the session has prepared.
//
// # Locks
//
// protectMu may be held while ownMu is taken, never the other way round. protectMu is held while
// the guard looks at the filesystem, and ownMu while a repository is written to a file.
package nameguard
