// Package filestate says whether a file is still the same: whether a name exists, which file it is,
// when that last changed, and whether anything has happened to a set of paths since. A sandbox asks
// this of files that programs outside may replace at any time.
//
// The package starts no goroutines: events wait in the kernel until someone asks.
package filestate
