//go:build linux || darwin

package python_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The worker's codec passes the test vectors and schema that Go's codec passes.
func TestCodec(t *testing.T) {
	eachPython(t, func(t *testing.T, s workerSetup) {
		cmd := exec.Command(s.python, "testdata/codec_check.py", "src", "../../ipc/testdata/vectors.json", "../../ipc/schema.json")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Count(string(out), "\n") != 1 || strings.Contains(string(out), " 0") {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}
