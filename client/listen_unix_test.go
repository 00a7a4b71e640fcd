//go:build unix

package client

import (
	"net"
	"path/filepath"
	"testing"
)

// listen listens where a daemon could.
func listen(t *testing.T) (l net.Listener, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return l, socket
}
