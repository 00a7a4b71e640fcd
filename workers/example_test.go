package workers_test

import (
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

// A Spec starts a program that speaks the worker protocol, here with bounds for its resources.
func ExampleSpec() {
	spec := workers.Spec{
		Name:   "lua",
		Path:   "/usr/local/bin/lua-worker",
		Args:   []string{"--worker"},
		Env:    []string{"LUA_PATH=/srv/lua/?.lua", "LUA_INIT"}, // sets the first, and removes the second
		Dir:    "/srv/project",
		Limits: workers.Limits{Memory: 2 << 30, Processes: 64, Turn: time.Minute},
	}
	fmt.Println(spec.Validate(), spec.Limits)

	spec.Limits.Memory = 1 << 20
	fmt.Println(spec.Validate())
	// Output:
	// <nil> memory 2 GiB, 64 processes, turns of 1m
	// workers: the memory limit of 1048576 bytes is too small for any runtime; use at least 64 MiB
}

// SecretVariables finds what a session of a model should not inherit.
func ExampleSecretVariables() {
	fmt.Println(workers.SecretVariables([]string{"HOME=/home/ada", "OPENAI_API_KEY=abc", "EDITOR=vi"}))
	// Output: [OPENAI_API_KEY]
}
