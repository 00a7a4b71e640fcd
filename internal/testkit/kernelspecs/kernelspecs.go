// Package kernelspecs installs kernelspecs of Jupyter for one test.
package kernelspecs

import (
	"os"
	"path/filepath"
	"testing"
)

// Install adds kernels to the kernels of the user, until the test ends. kernels maps the name of
// each kernel to the text of its kernel.json.
func Install(t *testing.T, kernels map[string]string) {
	t.Helper()
	data := t.TempDir()
	for name, text := range kernels {
		dir := filepath.Join(data, "kernels", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "kernel.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("JUPYTER_PATH", data)
}

// Usable returns a kernel.json whose program exists. A search checks nothing else.
func Usable(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return `{"argv":["` + filepath.ToSlash(program) + `","{connection_file}"],"display_name":"Basic","language":"python"}`
}
