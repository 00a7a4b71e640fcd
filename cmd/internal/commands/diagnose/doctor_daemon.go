package diagnose

import (
	"context"
	"os"

	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/osservice"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

// A daemonReport describes the running daemon of this user, and the service that starts one.
type daemonReport struct {
	Socket   string `json:"socket"`
	Version  string `json:"version,omitempty"` // "" if none is running
	Protocol int    `json:"protocol,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Sessions int    `json:"sessions,omitempty"`

	// IsOther means that the daemon is another version than this command. An upgrade does not change
	// a running daemon.
	IsOther bool `json:"is_other_version,omitempty"`

	Service string `json:"service,omitempty"` // the program that the service starts; "" without a service
	missing bool   // the service's program does not exist
}

// examineDaemon describes the daemon that commands use without --socket or --remote.
func examineDaemon(ctx context.Context) *daemonReport {
	info, socket, err := daemonlink.RunningDaemon(ctx)
	r := &daemonReport{Socket: socket}
	if err == nil {
		r.Version, r.Protocol, r.PID, r.Sessions = info.Version, info.Protocol, info.PID, info.Sessions
		r.IsOther = info.Version != cmdkit.ProgramVersion()
	}
	if home, err := os.UserHomeDir(); err == nil {
		r.Service = osservice.InstalledProgram(osservice.UserDirs{Home: home, UID: os.Getuid(), Config: userdirs.Config(os.Getenv, "")})
	}
	if r.Service != "" {
		_, err := os.Stat(r.Service)
		r.missing = os.IsNotExist(err)
	}
	return r
}

// isFaulty reports whether commands cannot use the daemon, or the service cannot start it.
func (r *daemonReport) isFaulty() bool {
	return r.missing || r.Version != "" && r.Protocol != protocol.Version
}

func (r *daemonReport) print(p *cmdkit.LineBuilder) {
	switch {
	case r.Version == "":
		p.AddLine("  -       none is running")
	case r.Protocol != protocol.Version:
		p.AddLine("  FAILED  the daemon at %s is repl %s and speaks protocol %d, and this command is repl %s and speaks %d: it cannot use its sessions. %s",
			r.Socket, r.Version, r.Protocol, cmdkit.ProgramVersion(), protocol.Version, daemonlink.DrainHint)
	default:
		p.AddLine("  ok      repl %s at %s (process %d), with %s", r.Version, r.Socket, r.PID, text.Count(r.Sessions, "session"))
		if r.IsOther {
			p.AddLine("  note    %s. %s", daemonlink.VersionsText(r.Version), daemonlink.DrainHint)
		}
	}
	if r.missing {
		p.AddLine("  FAILED  the service starts %s, which does not exist; repl service install writes it again", r.Service)
	} else if r.Service != "" {
		p.AddLine("  ok      the service starts %s", r.Service)
	}
}
