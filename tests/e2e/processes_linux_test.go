package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// readProcessInfo is what each process shows of itself to its user: its arguments and its environment,
// by the file that has them.
func readProcessInfo(t *testing.T) map[string]string {
	t.Helper()
	seen := make(map[string]string)
	for _, name := range []string{"cmdline", "environ", "comm"} {
		files, err := filepath.Glob("/proc/[0-9]*/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil { // or it has ended, or is another user's
				seen[file] = string(text)
			}
		}
	}
	if self, err := os.Readlink("/proc/self"); err != nil || seen["/proc/"+self+"/cmdline"] == "" {
		t.Fatalf("/proc shows not even this process: %v", err)
	}
	return seen
}
