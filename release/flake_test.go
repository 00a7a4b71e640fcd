package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeWords writes texts of a Nix archive: the length of each, itself, and zeros up to a multiple of eight.
func writeWords(h hash.Hash, words ...string) {
	for _, word := range words {
		_ = binary.Write(h, binary.LittleEndian, uint64(len(word)))
		h.Write([]byte(word))
		h.Write(make([]byte, (8-len(word)%8)%8))
	}
}

// writeNode writes a file or a directory of a Nix archive.
func writeNode(t *testing.T, h hash.Hash, path string) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	writeWords(h, "(", "type")
	switch {
	case info.IsDir():
		writeWords(h, "directory")
		list, err := os.ReadDir(path) // in the order of bytes, as Nix wants it
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			writeWords(h, "entry", "(", "name", e.Name(), "node")
			writeNode(t, h, filepath.Join(path, e.Name()))
			writeWords(h, ")")
		}
	case info.Mode().IsRegular():
		writeWords(h, "regular")
		if info.Mode()&0o100 != 0 {
			writeWords(h, "executable", "")
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeWords(h, "contents", string(data))
	default:
		t.Fatalf("%s is neither a file nor a directory", path)
	}
	writeWords(h, ")")
}

// nixHash returns the hash that nix-hash prints for a directory.
func nixHash(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	writeWords(h, "nix-archive-1")
	writeNode(t, h, dir)
	return "sha256-" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func TestFlake(t *testing.T) {
	flake := readTree(t, "flake.nix")
	t.Run("has the names of a release", func(t *testing.T) {
		for _, line := range []string{
			`description = "` + summary + `";`, `pname = "` + packageName + `";`, `homepage = "` + homepage + `";`, `mainProgram = "repl";`,
		} {
			if !strings.Contains(flake, line) {
				t.Errorf("flake.nix lacks %s", line)
			}
		}
	})

	// Without Nix, a wrong hash would be found only by users.
	t.Run("has the hash of the modules", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "vendor")
		if _, err := runCommand(t.Context(), "..", []string{"GOWORK=off", "GOFLAGS="}, "go", "mod", "vendor", "-o", dir); err != nil {
			t.Fatal(err)
		}
		if line := `vendorHash = "` + nixHash(t, dir) + `";`; !strings.Contains(flake, line) {
			t.Errorf("write into flake.nix: %s", line)
		}
	})

	t.Run("hashes as Nix does", func(t *testing.T) {
		dir := t.TempDir()
		writeFiles(t, dir, map[string]string{"b": "text\n", "a": ""})
		if err := os.Chmod(filepath.Join(dir, "a"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, want := nixHash(t, dir), "sha256-8PUwN2cZgBVnB6fWPKSwRy9GxhaG0hDlIMkYNBJP8fw="; got != want { // of nix-hash 2.8
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
