// Package securefile keeps files for the user of this process alone. Everybody else counts as
// others, except, on Windows, the system and its administrators, whom no access list keeps
// out. It starts no goroutine.
package securefile
