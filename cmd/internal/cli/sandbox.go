package cli

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// A confinement has the user's options for the sandbox of a session.
type confinement struct {
	level, network string
	writable       directories
}

// directories is the value of a flag that may be given several times.
type directories []string

func (d *directories) String() string { return strings.Join(*d, string(filepath.ListSeparator)) }

func (d *directories) Set(dir string) error {
	*d = append(*d, dir)
	return nil
}

func (c *confinement) define(f *flag.FlagSet) {
	f.StringVar(&c.level, "sandbox", string(workers.Full), "`LEVEL` what the session may write: read-only, workspace (its directory), or full, which is no sandbox")
	f.Var(&c.writable, "writable", "`DIR` one more directory that a session with a sandbox may write")
	f.StringVar(&c.network, "network", string(workers.NetworkNone), "`NETWORK` of a session with a sandbox: none but its own loopback, or full")
}

// sandbox checks the options. It returns nil without a sandbox.
func (c *confinement) sandbox(f *flag.FlagSet) (*workers.Sandbox, error) {
	level, err := workers.ParseLevel(c.level)
	if err != nil {
		return nil, misuse("--sandbox: %v", err)
	}
	if level == workers.Full {
		if len(c.writable) > 0 || isSet(f, "network") {
			return nil, misuse("--writable and --network are for sessions with a sandbox: add --sandbox workspace")
		}
		return nil, nil
	}
	s := &workers.Sandbox{Level: level, Network: workers.Network(c.network)}
	for _, dir := range c.writable {
		if i, err := os.Stat(dir); err != nil || !i.IsDir() {
			return nil, misuse("--writable %s: not a directory", dir)
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		s.Writable = append(s.Writable, dir)
	}
	if s.Network != workers.NetworkNone && s.Network != workers.NetworkFull {
		return nil, misuse("--network %s: use none or full", c.network)
	}
	return s, nil
}

// asked writes a sandbox into a request to a daemon.
func asked(s *workers.Sandbox, p *client.CreateParams) {
	if s != nil {
		p.Sandbox, p.Writable, p.Network = string(s.Level), s.Writable, string(s.Network)
	}
}

// sandboxOf returns the sandbox that a client of the daemon asks for.
func sandboxOf(p client.CreateParams) *workers.Sandbox {
	if p.Sandbox == "" {
		return nil
	}
	network := workers.Network(p.Network)
	if network == "" {
		network = workers.NetworkNone
	}
	return &workers.Sandbox{Level: workers.Level(p.Sandbox), Writable: p.Writable, Network: network}
}

// mustHold refuses a session that is confined in another way than the user asks for.
func mustHold(s *workers.Sandbox, now session.Info) error {
	if s == nil || now.Sandbox == s.String() {
		return nil
	}
	has := now.Sandbox
	if has == "" {
		has = string(workers.Full)
	}
	return fmt.Errorf("session %s is open with the sandbox %s, not %s: close it, or use another name", now.Name, has, s)
}

// trySandbox shows what a sandbox would hold here, or why there is none.
func trySandbox(f *flag.FlagSet) action {
	var c confinement
	c.define(f)
	f.Lookup("sandbox").DefValue = string(workers.Workspace)
	c.level = string(workers.Workspace)
	dir := f.String("dir", "", "`DIR` the working directory of the session")
	return func(s streams, args []string) (int, error) {
		if err := parse(f, args); err != nil {
			return statusUsage, err
		}
		if err := nothingAfter(f); err != nil {
			return statusUsage, err
		}
		where := choice{dir: *dir}
		if err := where.resolvePaths(); err != nil {
			return statusUsage, err
		}
		sandbox, err := c.sandbox(f)
		if err != nil {
			return statusUsage, err
		}
		if sandbox == nil {
			fmt.Fprintln(s.out, "sandbox full: a session has all rights of its user")
			return statusDone, nil
		}
		ctx, stop := catchSignals(os.Interrupt)
		defer stop()
		told, err := tryIn(ctx, sandbox, where.dir)
		if err != nil {
			return statusFailed, err
		}
		for _, line := range told {
			fmt.Fprintln(s.out, line)
		}
		return statusDone, nil
	}
}

// tryIn starts a program under a sandbox, in a directory.
func tryIn(ctx context.Context, sandbox *workers.Sandbox, dir string) (told []string, err error) {
	state, err := os.MkdirTemp("", "repl-sandbox-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	sup, err := supervisor.New(&supervisor.Options{Dir: filepath.Join(state, "sessions"), StartTimeout: probeTime})
	if err != nil {
		return nil, err
	}
	defer sup.Close()
	return sup.TrySandbox(ctx, sandbox, dir)
}

// examineSandbox tries whether a session can be confined here: each system has its own
// switches that forbid it.
func examineSandbox(ctx context.Context) fact {
	f := fact{Name: "sandbox"}
	dir, err := os.MkdirTemp("", "repl-doctor-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		_, err = tryIn(ctx, &workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone}, dir)
	}
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	f.Available, f.Detail = true, "sessions can be confined with --sandbox workspace"
	return f
}
