// Package host is the only platform code below the front ends: it starts a
// worker on a terminal of its own, through the stage, and ends its whole tree.
package host
