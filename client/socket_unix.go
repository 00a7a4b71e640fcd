//go:build !windows

package client

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

func defaultSocket(getenv func(string) string) string {
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "turnstone", "daemon.sock")
	}
	return filepath.Join(os.TempDir(), "turnstone-"+strconv.Itoa(os.Getuid()), "daemon.sock")
}

func connect(ctx context.Context, socket string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", socket)
}
