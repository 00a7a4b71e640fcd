// Package sandbox describes what the code of a session may access. A [Policy] is data: it says which
// files, hosts and mechanisms a session may use, and two policies can be intersected. Packages below
// supervisor/internal/sandbox enforce it. Package sandbox does not know whether this system can do that,
// and starts no goroutines.
package sandbox
