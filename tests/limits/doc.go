// Package limits tries the limits of a session on real runtimes, as a user without rights,
// with and without a sandbox.
package limits
