package webui

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestConn_SlowBrowser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, browser := net.Pipe()
		c := boundedConn{server}
		start := time.Now()
		if _, err := c.Write(make([]byte, 8<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != writeTimeout {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		data := bytes.Repeat([]byte("x"), 3*maxWriteBytes+1)
		go func() {
			_, _ = c.Write(data)
			_ = server.Close()
		}()
		if got, err := io.ReadAll(browser); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came, %v", len(got), err)
		}
	})
}

func TestFormatHost(t *testing.T) {
	t.Parallel()
	for port, want := range map[int]string{80: "x.localhost", 8080: "x.localhost:8080"} {
		if got := formatHost("x.localhost", port); got != want {
			t.Errorf("port %d: %s, want %s", port, got, want)
		}
	}
}
