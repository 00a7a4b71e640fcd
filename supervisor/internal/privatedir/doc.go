// Package privatedir knows what makes a directory of sessions private on each system: its name, whose its
// files are, who else could write to them, and the lock of the program that uses one. It creates no
// directory, and starts no goroutines.
package privatedir
