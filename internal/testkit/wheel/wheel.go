// Package wheel makes Python packages for tests that install some. It starts no goroutines.
package wheel

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Build returns version 1.0 of a package, which is one module with this code.
func Build(t testing.TB, name, code string) []byte {
	t.Helper()
	info := name + "-1.0.dist-info/"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for path, text := range map[string]string{
		name + ".py":      code,
		info + "METADATA": fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n", name),
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   fmt.Sprintf("%[1]s.py,,\n%[2]sMETADATA,,\n%[2]sWHEEL,,\n%[2]sRECORD,,\n", name, info),
	} {
		w, err := z.Create(path)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// BuildDir returns a new directory that contains the package of Build, for the options of pip and uv
// that search a directory.
func BuildDir(t testing.TB, name, code string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name+"-1.0-py3-none-any.whl"), Build(t, name, code), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
