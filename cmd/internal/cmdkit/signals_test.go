package cmdkit

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestSignals(t *testing.T) {
	t.Run("a signal that is sent twice at once counts once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			caught, stopped := make(chan os.Signal, 1), make(chan struct{})
			go handleSignals(t.Context(), caught, cancel, func() { close(stopped) })
			caught <- syscall.SIGTERM
			<-ctx.Done()
			if status, ended := SignalStatus(ctx); !ended || status != 128+int(syscall.SIGTERM) {
				t.Errorf("got status %d, %v", status, ended)
			}
			caught <- syscall.SIGTERM // as timeout(1) sends it
			synctest.Wait()
			select {
			case <-stopped:
				t.Fatal("the second signal has its default action")
			case <-time.After(repeatedSignalInterval - 1):
			}
			if len(caught) != 0 {
				t.Error("the second signal was not dropped")
			}
			<-stopped
		})
	})

	t.Run("may be stopped twice", func(t *testing.T) {
		ctx, stop := CatchSignals()
		stop()
		stop()
		if status, ended := SignalStatus(ctx); ended {
			t.Errorf("ended with status %d", status)
		}
	})

	t.Run("ends with the program", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			over, end := context.WithCancel(t.Context())
			caught := make(chan os.Signal, 1)
			began := time.Now()
			go func() {
				caught <- syscall.SIGTERM
				<-ctx.Done()
				end()
			}()
			handleSignals(over, caught, cancel, func() { t.Error("still catches signals") })
			if took := time.Since(began); took != 0 {
				t.Errorf("took %s", took)
			}
		})
	})
}
