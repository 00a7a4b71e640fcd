package daemonlink

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

// DrainHint says how to replace an old daemon, and what that costs.
const DrainHint = "repl daemon drain ends it once no code runs, after 60 s at the latest. The variables of its sessions end with it; the next repl serve starts the new version."

// VersionsText says that a daemon is another version than this command.
func VersionsText(daemon string) string {
	return fmt.Sprintf("The daemon runs repl %s, and this command is repl %s", daemon, cmdkit.ProgramVersion())
}

// statusTimeout bounds the wait for the daemon's description.
const statusTimeout = 5 * time.Second

// maxStatusBytes bounds the daemon's description.
const maxStatusBytes = 1 << 20

// RunningDaemon describes the daemon of this user on this host, and says where it listens. It asks
// with a control line, which daemons of every version of the protocol answer. It never starts one.
func RunningDaemon(ctx context.Context) (info protocol.DaemonInfo, socket string, err error) {
	socket = client.DefaultSocket(os.Getenv)
	conn, err := client.DefaultDialer(os.Getenv).Dial(ctx)
	if err != nil {
		return info, socket, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	info, err = askStatus(conn)
	return info, socket, err
}

// askStatus sends the control line status and returns the answer.
func askStatus(conn net.Conn) (info protocol.DaemonInfo, err error) {
	_ = conn.SetDeadline(time.Now().Add(statusTimeout))
	if _, err := conn.Write([]byte(`{"type":"status"}` + "\n")); err != nil {
		return info, err
	}
	line, err := bufio.NewReader(io.LimitReader(conn, maxStatusBytes)).ReadBytes('\n')
	if err != nil {
		return info, err
	}
	data, err := ControlData(line)
	if err != nil {
		return info, err
	}
	err = json.Unmarshal(data, &info)
	return info, err
}

// ControlData returns the data in the daemon's answer to a control line, or the error that it reports.
func ControlData(answer []byte) (json.RawMessage, error) {
	var reply struct {
		OK    bool            `json:"ok"`
		Error string          `json:"error"`
		Data  json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return nil, err
	}
	if !reply.OK {
		return nil, errors.New(reply.Error)
	}
	return reply.Data, nil
}
