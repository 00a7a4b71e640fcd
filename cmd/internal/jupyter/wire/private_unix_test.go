//go:build unix

package wire

import (
	"os"
	"path/filepath"
	"testing"
)

func TestConnectionFile_Mode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.json")
	c := Connection{Transport: "ipc", IP: "k", Shell: 1, IOPub: 2, Stdin: 3, Control: 4, Heartbeat: 5}
	if err := c.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}
