package proctree

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A canceled start does not wait for a manager that hangs.
func TestStartScopeCanceled(t *testing.T) {
	services := t.TempDir()
	bus, err := net.Listen("unix", filepath.Join(services, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if c, err := bus.Accept(); err == nil {
			defer c.Close()
			cancel() // the manager was asked, and does not answer
			<-t.Context().Done()
		}
	}()
	_, _, err = startScope(ctx, 1, "turnstone-test.scope", services)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, os.ErrNotExist) { // ErrNotExist: busctl is not installed
		t.Errorf("got %v, want context.Canceled", err)
	}
}
