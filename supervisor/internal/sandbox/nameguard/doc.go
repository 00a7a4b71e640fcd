// Package nameguard decides, by what a name means at the time of a call, whether a session may make,
// write, move or remove it: hooks and settings of repositories, hidden files, and mount points.
//
// Mounts protect only what was there when a session started. The guard looks again at each call, so
// a repository that was made a moment ago is protected like any other. It makes no calls for the
// session but one: it replaces settings of git, after their check, by a copy (gitconfig).
//
// Hooks and settings are protected in repositories that the session itself made, too. Git runs them
// outside even when it only asks for the state of the repository around such a one.
//
// The guard does not know which call is made, nor how its answer reaches the session: package broker
// does. The package starts no goroutines.
//
// # Locks
//
// protectMu may be held when ownMu is taken, never the other way round. It is held while the guard looks
// at the filesystem, and ownMu while a repository is written to a file.
package nameguard
