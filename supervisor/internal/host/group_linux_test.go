package host

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A session that is given up does not wait for a manager that hangs.
func TestStartScopeCanceled(t *testing.T) {
	services := t.TempDir()
	bus, err := net.Listen("unix", filepath.Join(services, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	ctx, giveUp := context.WithCancel(t.Context())
	go func() {
		if c, err := bus.Accept(); err == nil {
			defer c.Close()
			giveUp() // it was asked, and says nothing
			<-t.Context().Done()
		}
	}()
	_, _, err = startScope(ctx, 1, "turnstone-test.scope", services)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, os.ErrNotExist) { // the latter: nothing here could ask
		t.Errorf("got %v, want that it was given up", err)
	}
}
