// Package sandbox describes what the code of a session may access. A [Policy] is data: it lists the
// files, hosts and mechanisms that a session may use. Two policies can be intersected. Packages
// below supervisor/internal/sandbox enforce a policy. Package sandbox does not know whether this
// system can do that, and starts no goroutines.
//
// A program sets workers.Spec.Sandbox. Beforehand, the method TrySandbox of a supervisor tests
// whether this system can make such a sandbox. With [NetworkList] and Policy.Hosts a session
// reaches the hosts of a list, and Session.Destinations counts the connections and bytes of each.
// The page docs/sandbox-reference.md explains each rule to users.
package sandbox
