// Package privatedir determines whether a directory of sessions is private on each system. It
// checks its name, the owner of its files, and who else could write to them. It also has the lock
// of the program that uses a directory. It creates no directory, and starts no goroutines.
package privatedir
