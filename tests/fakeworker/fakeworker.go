// Package fakeworker is a worker without a language, for tests: a real process
// that speaks the worker protocol and runs a tiny script.
package fakeworker

import (
	"os"

	"github.com/turnstone-repl/turnstone/workers"
)

const roleEnv = "FAKEWORKER"

// Requested reports whether this process was started to be a fake worker.
func Requested() bool { return os.Getenv(roleEnv) != "" }

// Main is the worker; it never returns.
func Main() { os.Exit(70) }

// Options chooses how the worker behaves; nil means the defaults.
type Options struct {
	// Start is what goes wrong, or happens, before readiness; "" is nothing. See docs of Main.
	Start string
	// NoFence turns the capability fence off: text goes by frames only.
	NoFence bool
	// Interrupt is "signal" or "self"; "" means "signal".
	Interrupt string
}

// Spec starts the program self, a test binary whose TestMain calls Main, as a fake worker.
func Spec(self string, o *Options) workers.Spec {
	return workers.Spec{Name: "fake", Path: self, Env: []string{roleEnv + "=1"}}
}
