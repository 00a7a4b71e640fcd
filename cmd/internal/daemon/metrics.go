package daemon

import (
	"context"
	"runtime/metrics"

	"github.com/turnstone-repl/turnstone/client/protocol"
	counters "github.com/turnstone-repl/turnstone/cmd/internal/metrics"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
)

// daemonMemory is the name of a value of the Go runtime: all memory that it has mapped.
const daemonMemory = "/memory/classes/total:bytes"

// Metrics returns the metrics of the daemon in the text format of Prometheus. It inspects the
// processes of all sessions. It does not count as use.
func (d *Daemon) Metrics() string {
	d.mu.Lock()
	g := counters.Gauges{
		Version: d.options.Version, StartedUnix: float64(d.started.UnixMilli()) / 1000, Connections: d.rpc.Activity().Connections,
		Draining: d.draining, Paused: d.paused,
	}
	d.mu.Unlock()
	memory := []metrics.Sample{{Name: daemonMemory}}
	metrics.Read(memory)
	if memory[0].Value.Kind() == metrics.KindUint64 {
		g.DaemonBytes = int64(memory[0].Value.Uint64()) //nolint:gosec // less than 8 EiB
	}
	for _, e := range d.sortedSessions() {
		i, err := e.session.Info(context.Background())
		if err != nil { // it was just closed
			continue
		}
		g.Sessions = append(g.Sessions, counters.SessionGauge{Language: e.language, State: i.State, MemoryBytes: i.MemoryBytes})
	}
	return d.options.Counters.Format(g)
}

// handleMetrics returns the metrics. The call does not count as use.
func (d *Daemon) handleMetrics(context.Context, *rpcserver.Request, emptyResult) (protocol.Metrics, error) {
	return protocol.Metrics{Text: d.Metrics()}, nil
}

// Refusal returns why the daemon accepts no new sessions and turns: "draining" or "paused". "" means
// that it accepts them.
func (d *Daemon) Refusal() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.draining:
		return "draining"
	case d.paused:
		return "paused"
	}
	return ""
}
