// Package securefile keeps files that only the user of this process can access. On Windows the system
// and its administrators also have access, because no access list can exclude them. The package does
// not know what is in the files. It starts no goroutines.
package securefile
