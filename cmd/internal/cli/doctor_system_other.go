//go:build !linux

package cli

import "context"

// examineSystem tries the sandbox of this system, if it has one.
func examineSystem(ctx context.Context) []fact {
	return []fact{examineSandbox(ctx), {Name: "means of confinement", Detail: "they are looked for on Linux only"}}
}
