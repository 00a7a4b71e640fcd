package kernelspec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	kernels := PrefixDir(t.TempDir())
	f := SpecFile{Argv: []string{"repl", "jupyter", "kernel", "-f", "{connection_file}"}, Display: "P", Language: "python", Interrupt: "message", Metadata: Metadata{Turnstone: &OwnerMark{Session: "s"}}}
	for range 2 {
		if _, err := Write(kernels, "ours", f); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(kernels, "ours")
	if s, err := Read(dir); err != nil || s.Display != "P" || !s.InterruptByMessage {
		t.Errorf("%+v, %v", s, err)
	}
	if mark, ours := ReadOwnerMark(dir); !ours || mark.Session != "s" {
		t.Errorf("%+v, %v", mark, ours)
	}
	foreign := filepath.Join(kernels, "foreign")
	if err := os.MkdirAll(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"argv": ["python"], "display_name": "F", "language": "python"}`)
	if err := os.WriteFile(filepath.Join(foreign, "kernel.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(kernels, "foreign", f); err == nil || !strings.Contains(err.Error(), "was not written by repl") {
		t.Errorf("foreign kernelspec: got %v, want an error", err)
	}
	if err := Remove(foreign); err == nil {
		t.Error("a foreign kernelspec was removed")
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(kernels); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}
