package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// readProcessInfo returns what each process shows to its user: its arguments and its environment,
// by the file that holds them.
func readProcessInfo(t *testing.T) map[string]string {
	t.Helper()
	seen := make(map[string]string)
	for _, name := range []string{"cmdline", "environ", "comm"} {
		files, err := filepath.Glob("/proc/[0-9]*/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil { // it may have exited, or belong to another user
				seen[file] = string(text)
			}
		}
	}
	if self, err := os.Readlink("/proc/self"); err != nil || seen["/proc/"+self+"/cmdline"] == "" {
		t.Fatalf("/proc shows not even this process: %v", err)
	}
	return seen
}
