// Package nameguard decides, by what a name means at the time of a call, whether a session may make,
// write, move or remove it: hooks and settings of repositories, hidden files, and mount points.
//
// Mounts protect only what was there when a session started. The guard looks again at each call, so
// a repository that was made a moment ago is protected like any other. It makes no calls for the
// session but one: it replaces settings of git, after their check, by a copy (gitconfig).
//
// The guard does not know which call is made, nor how its answer reaches the session: package broker
// does. The package starts no goroutines.
//
// # Repositories that the session made
//
// git asks a repository inside another for its state. So a session could make one and name a program as
// its core.fsmonitor. Then git status outside would run it, also in a prompt or an editor. A repository
// is made in many steps and by any program. So hooks and settings are checked when its last part
// appears, whatever made the others. A notice that names such repositories comes too late: the user's
// prompt runs git first. If no program could write settings in place, cp -r and tar would fail.
// Settings that may be written until the repository is complete are not safe: a user's git init
// completes a directory that the session has prepared. So pre-commit install fails inside.
//
// # Locks
//
// protectMu may be held when ownMu is taken, never the other way round. It is held while the guard looks
// at the filesystem, and ownMu while a repository is written to a file.
package nameguard
