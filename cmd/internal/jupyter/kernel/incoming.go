package kernel

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zmtp"
)

// A peerRequest is a message with the connection that it came on.
type peerRequest struct {
	wire.Message
	conn *zmtp.Conn
}

// A queuedRequest is a request that is queued or being executed.
type queuedRequest struct {
	*peerRequest
	execute *executeContent // nil for requests of other kinds
	answer  func(context.Context, *queuedRequest)

	arrived       time.Time
	busyPublished atomic.Bool   // the status busy was published
	replied       chan struct{} // closed once its reply was sent
	turnless      bool          // no turn will publish the status idle
	turn          uint64        // guarded by shell.mu: its turn, once it has one
	ended         bool          // guarded by shell.mu: its code no longer runs
	interrupted   bool          // guarded by shell.mu
}

func (r *queuedRequest) isAnnounced() bool { return r.busyPublished.Load() }

// An executeContent is the content of an execute request.
type executeContent struct {
	Code         string            `json:"code"`
	Silent       bool              `json:"silent"`
	StoreHistory bool              `json:"store_history"`
	Expressions  map[string]string `json:"user_expressions"`
	AllowStdin   bool              `json:"allow_stdin"`
	StopOnError  bool              `json:"stop_on_error"`
}
