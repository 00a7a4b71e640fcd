// Package winpipe has one-way named pipes for exactly one process. Only Windows has them; on other
// systems the package is empty.
package winpipe
