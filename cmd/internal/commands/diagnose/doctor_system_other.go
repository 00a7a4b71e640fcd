//go:build !linux

package diagnose

import "context"

// examineSystem tries the sandbox of this system, if it has one.
func examineSystem(ctx context.Context) []systemFeature {
	return []systemFeature{examineSandbox(ctx), {Name: "sandbox", Detail: "available on Linux only"}}
}
