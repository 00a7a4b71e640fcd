package daemon

import (
	"encoding/json"
	"slices"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
)

// control answers a control line. It only queues commands for the owner, so a client cannot
// hold up the daemon.
func (d *Daemon) control(kind string, _ json.RawMessage) rpc.ControlReply {
	if kind == "status" {
		return d.status()
	}
	c := command(kind)
	if !slices.Contains([]command{commandPause, commandResume, commandDrain, commandStop}, c) {
		return rpc.ControlReply{Reason: "unknown_message_type", Error: "there are status, pause, resume, drain and stop"}
	}
	select {
	case d.commands <- c:
		return rpc.ControlReply{OK: true, Data: map[string]any{"queued": kind}}
	default:
		return rpc.ControlReply{Reason: "busy", Error: "the daemon has not carried out earlier commands yet"}
	}
}

// status describes the daemon. Calling it does not count as use.
func (d *Daemon) status() rpc.ControlReply {
	var fields map[string]any
	b, err := json.Marshal(d.info())
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	if err != nil {
		return rpc.ControlReply{Reason: "control_plane_error", Error: err.Error()}
	}
	a := d.rpc.Activity()
	fields["calls"] = a.Calls
	fields["idle_ms"] = d.idleFor(d.now()).Milliseconds()
	return rpc.ControlReply{OK: true, Data: fields}
}
