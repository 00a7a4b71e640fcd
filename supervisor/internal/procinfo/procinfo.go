// Package procinfo reads the system's process table and, on Linux, the files of /proc that describe
// one process. It knows neither workers nor monitors, keeps nothing open, and starts no goroutines.
package procinfo

// A ProcessRow holds the facts of the system's process table about one process.
type ProcessRow struct {
	PID, Parent, Group, Session int
	Zombie                      bool
}
