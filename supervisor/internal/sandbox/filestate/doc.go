// Package filestate reports whether files have changed. It finds whether a name exists, which file
// it names, and when that file last changed. It also finds whether anything has happened to a set
// of paths since. A sandbox needs this for files that programs outside may replace at any time.
//
// The package starts no goroutines: the kernel keeps events until a caller asks for them.
package filestate
