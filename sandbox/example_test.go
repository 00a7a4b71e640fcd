package sandbox_test

import (
	"fmt"
	"log"

	"github.com/turnstone-repl/turnstone/sandbox"
)

// A session may write one directory, and reach one host and the registries of packages.
func ExamplePolicy() {
	policy := &sandbox.Policy{
		Level:     sandbox.Workspace,
		Workspace: "/srv/birds",
		Network:   sandbox.NetworkList,
		Hosts:     []string{"data.example.org:443", sandbox.PackageHosts},
	}
	fmt.Println(policy.Validate(), policy.Confines())

	policy.Workspace = "birds"
	fmt.Println(policy.Validate())
	// Output:
	// <nil> true
	// sandbox: the workspace "birds" is not an absolute path
}

// The policy of a session can be narrowed by one of its user. It never becomes wider.
func ExamplePolicy_Intersect() {
	asked := &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}
	allowed := &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkFull}
	policy, narrowed := asked.Intersect(allowed, "/srv/birds")
	fmt.Println(policy.Level, policy.Network, narrowed)
	// Output: read-only none true
}

// A pattern matches a host, or with a star all names below one.
func ExampleParseHostPattern() {
	pattern, err := sandbox.ParseHostPattern("*.example.org:443")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pattern.Matches("data.example.org", 443), pattern.Matches("data.example.org", 80), pattern.Matches("example.com", 443))
	// Output: true false false
}
