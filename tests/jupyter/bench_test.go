//go:build linux

package jupyter

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkKernel_AgainstIPykernel reports the medians of requests through repl's kernel and through
// ipykernel. The two alternate, with one client.
func BenchmarkKernel_AgainstIPykernel(b *testing.B) {
	out := newJupyterHome(b).runScript(b, "figures.py", "300")
	for line := range strings.Lines(out) {
		var what string
		var ours, theirs float64
		if n, _ := fmt.Sscan(line, &what, &ours, &theirs); n == 3 {
			b.ReportMetric(ours, what+"-ms")
			b.ReportMetric(theirs, what+"-ipykernel-ms")
		}
	}
}
