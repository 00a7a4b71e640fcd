// Package sandbox describes what the code of a session may access. A [Policy] is data: it says which
// files, hosts and mechanisms a session may use, and two policies can be intersected. Packages below
// supervisor/internal/sandbox enforce it. Package sandbox does not know whether this system can do that,
// and starts no goroutines.
//
// A program sets workers.Spec.Sandbox, and tests beforehand with supervisor.TrySandbox whether sessions
// can be confined here. With [NetworkList] and Policy.Hosts a session reaches the hosts of a list;
// Session.Destinations counts the connections and bytes of each. docs/sandbox-reference.md has what a
// user needs to know about each rule.
package sandbox
