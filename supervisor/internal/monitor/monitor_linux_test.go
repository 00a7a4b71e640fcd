package monitor

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/broker"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linux"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// An interrupt is sent before the suspended calls are refused.
func TestMonitorCommandOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events bytes.Buffer
		s := &monitor{eventEncoder: json.NewEncoder(&events), sandbox: &linux.ActiveSandbox{Broker: broker.New(&plan.Plan{})}}
		in, out := io.Pipe()
		defer out.Close()
		commands := s.receiveCommands(json.NewDecoder(in))
		go func() {
			to := json.NewEncoder(out)
			_ = to.Encode(monitorproto.MonitorCommand{Kind: monitorproto.CommandSignal, Signal: int(syscall.SIGINT)})
			_ = to.Encode(monitorproto.MonitorCommand{Kind: monitorproto.CommandForgetDenials})
		}()
		if o := <-commands; o.Kind != monitorproto.CommandSignal {
			t.Fatalf("got %+v", o)
		}
		synctest.Wait()
		if events.Len() > 0 {
			t.Errorf("got events %s before the signal was sent, want none", &events)
		}
		select {
		case o := <-commands:
			if o.Kind != "" {
				t.Errorf("got %+v, want a no-op", o)
			}
		default:
			t.Error("the sandbox's command did not wait until the signal was sent")
		}
		synctest.Wait()
		if !strings.Contains(events.String(), monitorproto.EventSignalSent) {
			t.Errorf("got events %q after the signal, want %q", &events, monitorproto.EventSignalSent)
		}
	})
}
