package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGenerate(t *testing.T) {
	t.Run("matches the generated files in the tree", func(t *testing.T) {
		root := filepath.Join("..", "..")
		files, err := generateFiles(root)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range files {
			got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			if got = bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")); !bytes.Equal(got, want) {
				t.Errorf("%s is out of date; run go run ./clients/generate", name)
			}
		}
	})

	// The test changes a copy of the sources.
	t.Run("rejects types that its tables do not list", func(t *testing.T) {
		for name, change := range map[string][2]string{
			"protocol.MethodNew":                  {"\tMethodInfo = \"server/info\"\n", "\tMethodInfo = \"server/info\"\n\tMethodNew = \"server/new\"\n"},
			"protocol.DaemonInfo writes its JSON": {"// DaemonInfo describes the daemon: its program, its process and how much it serves.", "func (i DaemonInfo) MarshalJSON() ([]byte, error) { return nil, nil }\n\n// DaemonInfo describes the daemon: its program, its process and how much it serves."},
		} {
			root := t.TempDir()
			for _, pkg := range []string{"client/protocol", "session", "timeline"} {
				if err := os.CopyFS(filepath.Join(root, pkg), os.DirFS(filepath.Join("..", "..", pkg))); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(root, "client", "protocol", "messages.go")
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(strings.ReplaceAll(string(source), "\r\n", "\n"), change[0], change[1], 1)
			if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := generateFiles(root); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("want an error that names %s, got %v", name, err)
			}
		}
	})
}
