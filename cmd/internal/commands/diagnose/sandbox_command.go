package diagnose

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// NewSandboxCommand returns the command that shows what a session may do, what it was denied and what
// it was granted. Without a session it shows what a sandbox guarantees here, or why it is not
// available.
func NewSandboxCommand(f *flag.FlagSet) cmdkit.Action {
	trySandbox := newSandboxTrial(f)
	r := daemonlink.NewDaemonCommand(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(f, args)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if len(words) == 0 {
			if cmdkit.IsFlagSet(f, "socket") || r.JSON {
				return cmdkit.StatusUsage, cmdkit.UsageErrorf("--socket and --json need the name of a session")
			}
			return trySandbox(s)
		}
		for _, name := range []string{"sandbox", "sandbox-fallback", "allow-write", "confirm-write", "allow-read", "home-access", "network", "allow-host", "ask-permission", "dir"} {
			if cmdkit.IsFlagSet(f, name) {
				return cmdkit.StatusUsage, cmdkit.UsageErrorf("--%s is for a new session; repl grant %s --write PATH or --read PATH widens an existing one", name, words[0])
			}
		}
		if _, err := r.ParseArgs(args, "SESSION"); err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			account, err := newPermissionReport(ctx, c, words[0])
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			if r.JSON {
				return cmdkit.StatusDone, cmdkit.PrintJSON(s.Out, account)
			}
			account.print(s.Out)
			return cmdkit.StatusDone, nil
		})
	}
}

// A permissionReport describes what a session may do, and what it was granted and denied.
type permissionReport struct {
	Session      string                 `json:"session"`
	Sandbox      string                 `json:"sandbox"` // full without a sandbox
	Dir          string                 `json:"dir"`     // its directory, which is the workspace
	Grants       []session.Grant        `json:"granted"`
	Destinations []session.Destination  `json:"destinations"`
	Visibility   session.Visibility     `json:"visibility"`
	Request      *session.InputRequest  `json:"input_request,omitempty"`
	Denied       []session.AccessDenied `json:"denied"` // each once, at most maxShownDenials
	MoreDenied   int                    `json:"more_denied,omitempty"`
}

// maxShownDenials bounds the denials that are listed.
const maxShownDenials = 100

func newPermissionReport(ctx context.Context, c *client.Client, name string) (permissionReport, error) {
	now, err := c.GetSession(ctx, name)
	if err != nil {
		return permissionReport{}, err
	}
	a := permissionReport{Session: now.Name, Sandbox: now.Confinement(), Dir: now.Dir, Grants: now.Grants, Denied: []session.AccessDenied{}}
	if a.Grants == nil {
		a.Grants = []session.Grant{}
	}
	if a.Destinations, err = c.Session(name).Destinations(ctx); err != nil {
		return a, err
	}
	if a.Visibility, err = c.Session(name).Visibility(ctx); err != nil {
		return a, err
	}
	if now.InputRequest != nil && now.InputRequest.Permission != nil {
		a.Request = now.InputRequest
	}
	if now.LastSeq == 0 {
		return a, nil
	}
	for e, err := range c.Session(name).Events(ctx, 0) {
		if err != nil {
			return a, err
		}
		d, refused := e.Body.(timeline.AccessDenied)
		switch {
		case !refused || slices.Contains(a.Denied, d):
		case len(a.Denied) == maxShownDenials:
			a.MoreDenied++
		default:
			a.Denied = append(a.Denied, d)
		}
		if e.Seq >= now.LastSeq {
			break
		}
	}
	return a, nil
}

func (p permissionReport) print(w io.Writer) {
	fmt.Fprintf(w, "sandbox %s\ndirectory: %s\n", p.Sandbox, text.QuoteName(p.Dir))
	for _, g := range p.Grants {
		fmt.Fprintf(w, "granted: %s\n", timeline.AccessGranted{Read: g.Read, Write: g.Write, Host: g.Host, Call: g.Call})
	}
	printShown(w, p.Visibility)
	for _, r := range p.Destinations {
		if r.Connections > 0 {
			fmt.Fprintf(w, "reached: %s (connections: %d, sent %s, received %s)\n", r.Address, r.Connections, text.Bytes(r.Sent), text.Bytes(r.Received))
		}
	}
	for _, d := range p.Denied {
		fmt.Fprintf(w, "refused: %s\n", d)
	}
	if p.MoreDenied > 0 {
		fmt.Fprintf(w, "refused: %d more\n", p.MoreDenied)
	}
	if p.Request != nil {
		fmt.Fprintf(w, "asks: %s (%s)\n", p.Request.Permission.AccessDenied, cmdflags.GrantCommand(p.Session, p.Request.Permission.Grant))
	}
}

// maxNamesPerLine bounds the names in a line about visible files; --json lists all.
const maxNamesPerLine = 12

// printShown prints a line for each reason why a session sees something of the home directory.
func printShown(w io.Writer, s session.Visibility) {
	var reasons []string
	by := map[string][]string{}
	for _, visible := range s.Paths {
		if by[visible.Reason] == nil {
			reasons = append(reasons, visible.Reason)
		}
		name := visible.Path
		if rest, ok := strings.CutPrefix(name, s.Home+string(filepath.Separator)); ok {
			name = rest
		}
		by[visible.Reason] = append(by[visible.Reason], text.QuoteName(name))
	}
	slices.Sort(reasons)
	for _, why := range reasons {
		fmt.Fprintf(w, "visible in %s (%s): %s\n", text.QuoteName(s.Home), why, joinFirst(by[why], 0))
	}
	if s.MorePaths > 0 {
		fmt.Fprintf(w, "visible in %s: %d more\n", text.QuoteName(s.Home), s.MorePaths)
	}
	if len(s.WithheldVariables) > 0 {
		fmt.Fprintf(w, "withheld variables: %s\n", joinFirst(s.WithheldVariables, s.MoreWithheld))
	}
}

// joinFirst joins the first names and counts the rest. more is the number of names beyond the list.
func joinFirst(names []string, more int) string {
	first := names[:min(len(names), maxNamesPerLine)]
	text := strings.Join(first, ", ")
	if more += len(names) - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// newSandboxTrial shows what a sandbox guarantees here, or why it is not available.
func newSandboxTrial(f *flag.FlagSet) func(s cmdkit.Streams) (int, error) {
	var c cmdflags.SandboxFlags
	c.AddFlags(f)
	f.Lookup("sandbox").DefValue = string(sandbox.Workspace)
	c.Level = string(sandbox.Workspace)
	dir := f.String("dir", "", "`DIR` the working directory of the session")
	return func(s cmdkit.Streams) (int, error) {
		where := cmdflags.RuntimeFlags{Dir: *dir}
		if err := where.ResolvePaths(); err != nil {
			return cmdkit.StatusUsage, err
		}
		policy, err := c.BuildSandbox(f)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if policy == nil {
			fmt.Fprintln(s.Out, "sandbox full: a session has all rights of its user")
			return cmdkit.StatusDone, nil
		}
		ctx, stop := cmdkit.CatchSignals(os.Interrupt)
		defer stop()
		lines, err := cmdflags.TrySandboxIn(ctx, policy, where.Dir)
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		for _, line := range lines {
			fmt.Fprintln(s.Out, line)
		}
		return cmdkit.StatusDone, nil
	}
}
