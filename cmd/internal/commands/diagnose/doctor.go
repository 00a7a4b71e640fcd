package diagnose

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/osservice"
)

// A doctorReport holds the results of all checks of doctor.
type doctorReport struct {
	Version   string          `json:"version"`
	Build     string          `json:"build"`
	Languages []*runtimeCheck `json:"languages"`
	Kernels   []kernelReport  `json:"kernels,omitempty"` // of Jupyter
	MCP       []checkResult   `json:"mcp"`
	Servers   []checkResult   `json:"servers,omitempty"` // of --mcp-servers
	Clients   []clientReport  `json:"clients"`
	Daemon    *daemonReport   `json:"daemon,omitempty"`
	System    []systemFeature `json:"system"`
	Logout    *systemFeature  `json:"logout,omitempty"` // nil if it cannot be determined
}

// NewDoctorCommand returns the command that shows which runtimes are used and why, tests them, and
// checks the clients and the system.
func NewDoctorCommand(f *flag.FlagSet) cmdkit.Action {
	var c cmdflags.RuntimeFlags
	c.AddFlags(f)
	var servers cmdflags.ToolServerFlags
	f.Var(&servers.Sources, "mcp-servers", "`FILE` also start and check MCP servers whose tools code may call: those in this file of mcpServers, or those you approved in claude, codex, vscode or cursor; may be repeated")
	asJSON := f.Bool("json", false, "print JSON, for programs")
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := cmdkit.RequireNoArgs(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		checked, named, err := c.LanguagesOrAll()
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		serverArgs, err := cmdflags.ClientServerArgs(&c, f)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := servers.ResolveSources(); err != nil {
			return cmdkit.StatusUsage, err
		}
		ctx, stop := cmdkit.CatchSignals(os.Interrupt)
		defer stop()
		d := doctorReport{Version: cmdkit.ProgramVersion(), Build: cmdkit.BuildSettings()}
		policy := selectProbePolicy(ctx, &c, cmdkit.IsFlagSet(f, "sandbox"))
		for _, l := range checked {
			if ctx.Err() == nil {
				d.Languages = append(d.Languages, newRuntimeCheck(ctx, c, l, policy))
			}
		}
		if i := slices.IndexFunc(d.Languages, func(c *runtimeCheck) bool { return c.Missing == "" }); i >= 0 && ctx.Err() == nil {
			d.MCP = examineMCP(ctx, policy, d.Languages[i].Language, d.Languages[i].codeForTwo(), serverArgs)
		}
		if d.Servers, err = examineServers(ctx, &servers); err != nil {
			return cmdkit.StatusUsage, err
		}
		if ctx.Err() == nil {
			d.Kernels = examineKernels(ctx)
			d.Clients = examineClients(ctx)
			d.Daemon = examineDaemon(ctx)
			d.System = examineSystem(ctx)
			d.Logout = examineLogout(ctx)
		}
		if status, ok := cmdkit.SignalStatus(ctx); ok {
			return status, nil
		}
		if *asJSON {
			out := json.NewEncoder(s.Out)
			out.SetIndent("", "  ")
			out.SetEscapeHTML(false)
			err = out.Encode(d)
		} else {
			err = d.printReport(s.Out)
		}
		if err == nil && d.hasFaults(named) {
			return cmdkit.StatusFailed, nil
		}
		return cmdkit.StatusDone, err
	}
}

// examineServers starts the MCP servers whose tools code may call. A server that is left out is not
// a fault.
func examineServers(ctx context.Context, c *cmdflags.ToolServerFlags) (found []checkResult, err error) {
	var notes strings.Builder
	set, err := c.NewToolSet(&notes, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	for _, one := range set.CheckServers(ctx) {
		f := checkResult{Name: one.Name, OK: one.Err == nil, Detail: one.Detail}
		if one.Err != nil {
			f.Detail = cmdkit.ErrorLine(one.Err)
		}
		found = append(found, f)
	}
	for line := range strings.Lines(notes.String()) {
		found = append(found, checkResult{Name: "note", OK: true, Detail: strings.TrimSpace(strings.TrimPrefix(line, "repl:"))})
	}
	return found, nil
}

// hasFaults reports whether a check failed. A language that was not named may be missing if another
// one works.
func (d *doctorReport) hasFaults(named bool) bool {
	failed := func(p checkResult) bool { return !p.OK }
	missing := 0
	for _, l := range d.Languages {
		if slices.ContainsFunc(l.Probes, failed) {
			return true
		}
		if l.Missing != "" {
			missing++
		}
	}
	return missing > 0 && (named || missing == len(d.Languages)) ||
		slices.ContainsFunc(d.MCP, failed) || slices.ContainsFunc(d.Servers, failed) || slices.ContainsFunc(d.Clients, clientReport.isFaulty) || d.Daemon != nil && d.Daemon.isFaulty()
}

// printReport prints the report for a terminal.
func (d *doctorReport) printReport(w io.Writer) error {
	var p cmdkit.LineBuilder
	p.AddLine("repl %s (%s)", d.Version, d.Build)
	for _, l := range d.Languages {
		p.AddLine("")
		l.printCheck(&p)
	}
	printKernels(&p, d.Kernels)
	if len(d.MCP) > 0 {
		p.AddLine("\nMCP server, as a client starts it")
		addResults(&p, d.MCP)
	}
	if len(d.Servers) > 0 {
		p.AddLine("\nMCP servers, for code in sessions")
		addResults(&p, d.Servers)
	}
	p.AddLine("\nClients")
	printClients(&p, d.Clients)
	if d.Daemon != nil {
		p.AddLine("\nDaemon")
		d.Daemon.print(&p)
	}
	p.AddLine("\nSandbox and limits on this system")
	for _, f := range d.System {
		mark := "yes"
		if !f.Available {
			mark = "no "
		}
		p.AddLine("  %s  %s: %s", mark, f.Name, f.Detail)
	}
	if f := d.Logout; f != nil {
		p.AddLine("\nrepl serve after logout")
		p.AddLine("  %s  %s", f.Name, f.Detail)
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// examineLogout checks whether programs outlive this user's last logout. It returns nil if that
// cannot be determined.
func examineLogout(ctx context.Context) *systemFeature {
	on, known := osservice.LingerState(ctx, strconv.Itoa(os.Getuid()))
	if !known {
		return nil
	}
	f := systemFeature{Name: "lingering", Available: on, Detail: "on: your services keep running after your last logout"}
	if !on {
		f.Detail = "off: " + osservice.NoLingerHint
	}
	return &f
}
