package daemon

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/internal/peer"
)

// An addressProver is a listener that can prove to a client which user its daemon belongs to.
type addressProver interface {
	Prove(conn io.ReadWriteCloser, nonce string) (peer.Proof, error)
}

// handleControl answers a control line. It only queues commands for the owner, so that a client
// cannot block the daemon.
func (d *Daemon) handleControl(conn *rpcserver.Conn, kind string, line json.RawMessage) rpcserver.ControlReply {
	switch kind {
	case "status":
		return d.statusReply()
	case peer.Question:
		return d.handleProve(conn, line)
	}
	c := controlCommand(kind)
	if !slices.Contains([]controlCommand{commandPause, commandResume, commandDrain, commandStop}, c) {
		return rpcserver.ControlReply{Reason: "unknown_message_type", Error: "unknown type; use prove, status, pause, resume, drain or stop"}
	}
	select {
	case d.commands <- c:
		return rpcserver.ControlReply{OK: true, Data: map[string]any{"queued": kind}}
	default:
		return rpcserver.ControlReply{Reason: "busy", Error: "earlier commands are still queued; try again later"}
	}
}

// handleProve proves to a client that this is the daemon of its user at this address. The call does
// not count as use.
func (d *Daemon) handleProve(conn *rpcserver.Conn, line json.RawMessage) rpcserver.ControlReply {
	var q struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return rpcserver.ControlReply{Reason: "invalid", Error: err.Error()}
	}
	d.mu.Lock()
	l, ok := d.listener.(addressProver)
	d.mu.Unlock()
	if !ok {
		return rpcserver.ControlReply{Reason: "unsupported", Error: "on this system the owner of the pipe is the proof"}
	}
	p, err := l.Prove(conn.Stream(), q.Nonce)
	if err != nil {
		conn.Logger.Warn("proof refused", "error", err)
		return rpcserver.ControlReply{Reason: "unproven", Error: err.Error()}
	}
	return rpcserver.ControlReply{OK: true, Data: p.Fields()}
}

// statusReply returns the state of the daemon. The call does not count as use.
func (d *Daemon) statusReply() rpcserver.ControlReply {
	var fields map[string]any
	b, err := json.Marshal(d.daemonInfo())
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	if err != nil {
		return rpcserver.ControlReply{Reason: "control_plane_error", Error: err.Error()}
	}
	a := d.rpc.Activity()
	fields["calls"] = a.Calls
	fields["idle_ms"] = d.idleFor(d.currentTime()).Milliseconds()
	return rpcserver.ControlReply{OK: true, Data: fields}
}
