package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeRelease writes a release archive with a program for linux/arm64, and its SHA256SUMS.
func writeRelease(t *testing.T, dir string, program []byte) (archive string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, data := range map[string][]byte{"LICENSE": []byte("free"), "repl": program} {
		if err := w.WriteHeader(&tar.Header{Name: "turnstone-repl_1.2.3_linux_arm64/" + name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	archive = filepath.Join(dir, "turnstone-repl_1.2.3_linux_arm64.tar.gz")
	writeTestFile(t, archive, b.Bytes())
	writeTestFile(t, filepath.Join(dir, "SHA256SUMS"), fmt.Appendf(nil, "%x  other.tar.gz\n%x  %s\n", sha256.Sum256(nil), sha256.Sum256(b.Bytes()), filepath.Base(archive)))
	return archive
}

func writeTestFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFindProgram(t *testing.T) {
	t.Parallel()

	t.Run("checks the release archive against its hash", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		m := elfMachines["linux/arm64"]
		program := []byte(m.magic + strings.Repeat("\x00", m.at-len(m.magic)) + m.machine + "and the rest")
		archive := writeRelease(t, dir, program)
		p := ProgramFinder{Dirs: []string{t.TempDir(), dir}, Build: map[string]string{"GOOS": "darwin", "GOARCH": "arm64", "CGO_ENABLED": "1", "version": "v1.2.3"}}
		got, err := p.FindProgram("linux/arm64")
		if err != nil || !bytes.Equal(got.data, program) || got.Linked || got.path != archive {
			t.Fatalf("got %+v, %v", got, err)
		}

		sums := filepath.Join(dir, "SHA256SUMS")
		writeTestFile(t, sums, []byte(strings.Repeat("0", 64)+"  "+filepath.Base(archive)+"\n"))
		if _, err := p.FindProgram("linux/arm64"); err == nil || !strings.Contains(err.Error(), archive+" is damaged or of another release") {
			t.Errorf("wrong hash: got %v", err)
		}
		if err := os.Remove(sums); err != nil {
			t.Fatal(err)
		}
		if _, err := p.FindProgram("linux/arm64"); err == nil || !strings.Contains(err.Error(), "cannot be checked; put SHA256SUMS") {
			t.Errorf("missing SHA256SUMS: got %v", err)
		}
	})

	t.Run("prefers a program that needs no C library", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		m := elfMachines["linux/amd64"]
		binary := []byte(m.magic + strings.Repeat("\x00", m.at-len(m.magic)) + m.machine)
		self, better := filepath.Join(dir, "repl"), filepath.Join(dir, "repl-linux-amd64")
		writeTestFile(t, self, binary)
		p := ProgramFinder{Self: self, Dirs: []string{dir}, Build: map[string]string{"GOOS": "linux", "GOARCH": "amd64", "CGO_ENABLED": "1"}}
		if got, err := p.FindProgram("linux/amd64"); err != nil || !got.Linked || got.path != self {
			t.Errorf("only this program: got %+v, %v", got, err)
		}
		writeTestFile(t, better, binary)
		if got, err := p.FindProgram("linux/amd64"); err != nil || got.Linked || got.path != better {
			t.Errorf("with a static program next to it: got %+v, %v", got, err)
		}
		p.Build["CGO_ENABLED"] = "0"
		if got, err := p.FindProgram("linux/amd64"); err != nil || got.Linked || got.path != self {
			t.Errorf("static itself: got %+v, %v", got, err)
		}
		if _, err := p.FindProgram("darwin/arm64"); err == nil || !strings.Contains(err.Error(), "repl-darwin-arm64") {
			t.Errorf("another system: got %v", err)
		}
	})
}
