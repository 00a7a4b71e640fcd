// Package securefile keeps files for the user of this process alone. Everybody else counts as others,
// except, on Windows, the system and its administrators, whom no access list keeps out. The package
// does not know what is in the files. It starts no goroutines.
package securefile
