// Package winpipe has one-way named pipes for exactly one process, which the caller identifies by
// its pid. Only Windows has them; on other systems the package is empty.
//
// The package carries bytes, starts no goroutines, and does not know who is at the other end beyond
// its pid.
package winpipe
