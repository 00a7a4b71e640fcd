// Package winpipe has one-way named pipes for exactly one process, which the caller identifies by
// its pid. Only Windows has them; on other systems the package is empty.
//
// The package carries bytes and starts no goroutines. It knows only the pid of the process at the
// other end.
package winpipe
