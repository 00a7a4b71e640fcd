// Package limits tests the limits of a session on real runtimes, as an unprivileged user, with and
// without a sandbox.
package limits
