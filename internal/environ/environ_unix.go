//go:build unix

package environ

// IgnoresCase reports whether names that differ in case are one variable.
const IgnoresCase = false
