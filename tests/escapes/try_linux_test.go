package escapes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
)

func TestTrySandboxContext(t *testing.T) {
	t.Parallel()

	// The tried program loads a library from a pipe without a writer, so it would never end.
	t.Run("ends a program that hangs", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		pipe := filepath.Join(m.work, "library.so")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		sup, err := supervisor.New(&supervisor.Options{Dir: m.sessions, Env: append(m.env, "LD_PRELOAD="+filepath.Base(pipe), "LD_LIBRARY_PATH="+m.work)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sup.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		tried := make(chan error, 1)
		go func() {
			_, err := sup.TrySandbox(ctx, newSandbox(m), m.work)
			tried <- err
		}()
		library, err := os.OpenFile(pipe, os.O_WRONLY, 0) // once the program loads it
		if err != nil {
			t.Fatal(err)
		}
		defer library.Close()
		cancel()
		if err := <-tried; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want it canceled", err)
		}
		if left, err := filepath.Glob(filepath.Join(m.sessions, "try-*")); err != nil || len(left) > 0 {
			t.Errorf("got %v, %v, want nothing left behind", left, err)
		}
	})

	t.Run("starts nothing if it has ended", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		sup, err := supervisor.New(&supervisor.Options{Dir: m.sessions, Env: m.env})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sup.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if notices, err := sup.TrySandbox(ctx, &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}, m.work); !errors.Is(err, context.Canceled) {
			t.Errorf("got %q, %v, want it canceled", notices, err)
		}
	})
}
