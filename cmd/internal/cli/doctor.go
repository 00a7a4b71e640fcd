package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// probeTime bounds each thing that doctor tries.
const probeTime = 10 * time.Second

// A diagnosis has the results of doctor.
type diagnosis struct {
	Version   string         `json:"version"`
	Build     string         `json:"build"`
	Languages []*checkup     `json:"languages"`
	Kernels   []kernelReport `json:"kernels,omitempty"` // of Jupyter
	MCP       []finding      `json:"mcp"`
	Servers   []finding      `json:"servers,omitempty"` // of --servers
	Clients   []clientReport `json:"clients"`
	System    []fact         `json:"system"`
	Logout    *fact          `json:"logout,omitempty"` // nil where nobody can tell
}

// A finding is the result of one probe.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// A fact is something that the system offers or does not offer.
type fact struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Detail    string `json:"detail"`
}

// doctor shows which runtimes are used and why, tests them, and examines the clients and
// the system.
func doctor(f *flag.FlagSet) action {
	var c choice
	c.define(f)
	var servers serverChoice
	f.Var(&servers.sources, "servers", "`FILE` also the MCP servers whose tools code may call: those in this file of mcpServers, or of what you approved in claude, codex, vscode or cursor; starts each; may be repeated")
	asJSON := f.Bool("json", false, "print JSON, for programs")
	return func(s streams, args []string) (int, error) {
		if err := parse(f, args); err != nil {
			return statusUsage, err
		}
		if err := nothingAfter(f); err != nil {
			return statusUsage, err
		}
		asked, named, err := c.languages()
		if err != nil {
			return statusUsage, err
		}
		given, err := c.serverArgs(f)
		if err != nil {
			return statusUsage, err
		}
		if err := servers.check(); err != nil {
			return statusUsage, err
		}
		ctx, stop := catchSignals(os.Interrupt)
		defer stop()
		d := diagnosis{Version: programVersion(), Build: buildSettings()}
		careful := c.caution(ctx, isSet(f, "sandbox"))
		for _, l := range asked {
			if ctx.Err() == nil {
				d.Languages = append(d.Languages, newCheckup(ctx, c, l, careful))
			}
		}
		if i := slices.IndexFunc(d.Languages, func(c *checkup) bool { return c.Missing == "" }); i >= 0 && ctx.Err() == nil {
			d.MCP = examineMCP(ctx, careful, d.Languages[i].Language, d.Languages[i].two(), given)
		}
		if d.Servers, err = examineServers(ctx, &servers); err != nil {
			return statusUsage, err
		}
		if ctx.Err() == nil {
			d.Kernels = examineKernels(ctx)
			d.Clients = examineClients(ctx)
			d.System = examineSystem(ctx)
			d.Logout = examineLogout(ctx)
		}
		if status, ok := statusOf(ctx); ok {
			return status, nil
		}
		if *asJSON {
			out := json.NewEncoder(s.out)
			out.SetIndent("", "  ")
			out.SetEscapeHTML(false)
			err = out.Encode(d)
		} else {
			err = d.print(s.out)
		}
		if err == nil && d.faults(named) {
			return statusFailed, nil
		}
		return statusDone, err
	}

}

// examineServers starts the servers of tools. One that is left out is no fault.
func examineServers(ctx context.Context, c *serverChoice) (found []finding, err error) {
	var notes strings.Builder
	set, err := c.set(&notes, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	for _, one := range set.CheckServers(ctx) {
		f := finding{Name: one.Name, OK: one.Err == nil, Detail: one.Detail}
		if one.Err != nil {
			f.Detail = oneLine(one.Err)
		}
		found = append(found, f)
	}
	for line := range strings.Lines(notes.String()) {
		found = append(found, finding{Name: "note", OK: true, Detail: strings.TrimSpace(strings.TrimPrefix(line, "repl:"))})
	}
	return found, nil
}

// chosen returns the languages of --worker and --lang.
func (c choice) chosen() (asked []language, err error) {
	for _, own := range c.worker {
		asked = append(asked, own.language())
	}
	if c.lang == "" {
		return asked, nil
	}
	l, err := languageNamed(c.lang)
	if err == nil {
		err = c.checkExecutable(l)
	}
	return append(asked, l), err
}

// languages returns the chosen languages, or all if none is chosen.
func (c choice) languages() (asked []language, named bool, err error) {
	if asked, err = c.chosen(); err != nil || c.lang != "" {
		return asked, true, err
	}
	for _, l := range languages() {
		if c.executable(l) != "" {
			asked = append(asked, l)
		}
	}
	if len(asked) > 0 {
		return asked, true, nil
	}
	asked, err = allLanguages()
	return asked, false, err
}

// faults reports whether something that should work does not. A language that was not
// named may be missing, if there is another.
func (d *diagnosis) faults(named bool) bool {
	failed := func(p finding) bool { return !p.OK }
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
		slices.ContainsFunc(d.MCP, failed) || slices.ContainsFunc(d.Servers, failed) || slices.ContainsFunc(d.Clients, clientReport.faulty)
}

// A page is text that is built line by line.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) findings(list []finding) {
	for _, f := range list {
		mark := "ok    "
		if !f.OK {
			mark = "FAILED"
		}
		p.line("  %s  %s: %s", mark, f.Name, f.Detail)
	}
}

// print writes the diagnosis for a person.
func (d *diagnosis) print(w io.Writer) error {
	var p page
	p.line("repl %s (%s)", d.Version, d.Build)
	for _, l := range d.Languages {
		p.line("")
		l.print(&p)
	}
	printKernels(&p, d.Kernels)
	if len(d.MCP) > 0 {
		p.line("\nMCP server, as a client starts it")
		p.findings(d.MCP)
	}
	if len(d.Servers) > 0 {
		p.line("\nServers of tools, for code in sessions")
		p.findings(d.Servers)
	}
	p.line("\nClients")
	printClients(&p, d.Clients)
	p.line("\nWhat this system offers to confine sessions")
	for _, f := range d.System {
		mark := "yes"
		if !f.Available {
			mark = "no "
		}
		p.line("  %s  %s: %s", mark, f.Name, f.Detail)
	}
	if f := d.Logout; f != nil {
		p.line("\nLogout: what becomes of repl serve")
		p.line("  %s  %s", f.Name, f.Detail)
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// examineLogout finds out whether programs outlive this user's last login.
func examineLogout(ctx context.Context) *fact {
	on, known := lingering(ctx, strconv.Itoa(os.Getuid()))
	if !known {
		return nil
	}
	f := fact{Name: "lingering", Available: on, Detail: "on: services of yours go on after your last logout"}
	if !on {
		f.Detail = "off: " + notLingering
	}
	return &f
}
