package sessions

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/console"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// grantFlags holds the flags of repl grant.
type grantFlags struct {
	read, write, host, call, dir string
	accept                       string
	always, refuse               bool
	isRemote                     bool // the session is not on this machine
}

// NewGrantCommand returns the command that lets a user widen the sandbox of a running session.
func NewGrantCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	var a grantFlags
	f.StringVar(&a.write, "write", "", "`PATH` let the session write this directory or file")
	f.StringVar(&a.read, "read", "", "`PATH` show the session this directory or file of your home directory or /tmp")
	f.StringVar(&a.accept, "confirm-write", "", "`REALPATH` confirm --write by its real path; required if programs outside the sandbox run or read files there")
	f.StringVar(&a.host, "host", "", "`HOST` let the session reach example.org, *.example.org or example.org:443")
	f.StringVar(&a.call, "tool", "", "`TOOL` let the session call github.search_issues, or 'github.*' for all but destructive ones")
	f.BoolVar(&a.always, "always", false, "also grant it to later sessions of this workspace")
	f.BoolVar(&a.refuse, "deny", false, "refuse what the session asks for")
	f.StringVar(&a.dir, "dir", "", "`DIR` the workspace, without SESSION; default this directory")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(f, args)
		if err == nil {
			err = r.ResolveTarget()
		}
		if err == nil {
			a.isRemote = r.IsRemote()
			err = a.validateArgs(words)
		}
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if !term.IsTerminal(int(s.In.Fd())) {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("grant needs a user at a terminal; programs may not grant rights to a session")
		}
		if len(words) == 0 {
			return a.saveGrant(s)
		}
		if words, err = r.ParseArgs(args, "SESSION"); err != nil {
			return cmdkit.StatusUsage, err
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			return a.applyTo(ctx, s, c.Session(words[0]).WithAuthor(cmdkit.CurrentAuthor()))
		})
	}
}

// countRights returns how many rights the flags name.
func (f *grantFlags) countRights() (n int) {
	for _, name := range []string{f.read, f.write, f.host, f.call} {
		if name != "" {
			n++
		}
	}
	return n
}

func (f *grantFlags) validateArgs(words []string) error {
	switch {
	case f.countRights() > 1:
		return cmdkit.UsageErrorf("use only one of --read, --write, --host and --tool at a time")
	case f.accept != "" && f.write == "":
		return cmdkit.UsageErrorf("--confirm-write needs --write")
	case f.refuse && (f.countRights() > 0 || f.always):
		return cmdkit.UsageErrorf("--deny refuses the request of the session, and cannot be combined with a right or --always")
	case len(words) == 0 && !(f.countRights() > 0 && f.always):
		return cmdkit.UsageErrorf("grant needs the name of a session (repl list shows them), or --always for the workspace of this directory")
	case len(words) == 0 && f.isRemote:
		return cmdkit.UsageErrorf("--always without SESSION is for workspaces on this machine; name the session there")
	case len(words) > 0 && f.dir != "":
		return cmdkit.UsageErrorf("--dir is for --always without SESSION; a session has its own workspace")
	}
	return nil
}

// parseGrant returns the right that the flags name.
func (f *grantFlags) parseGrant() (g session.Grant, err error) {
	g = session.Grant{Host: f.host, Call: f.call, Always: f.always}
	if f.read != "" {
		g.Read, err = f.resolvePath("--read", f.read)
	}
	if f.write != "" {
		g.Write, err = f.resolvePath("--write", f.write)
	}
	if f.accept != "" && err == nil {
		g.Accept, err = f.resolvePath("--confirm-write", f.accept)
	}
	return g, err
}

// resolvePath returns the absolute path that a flag names. Only the start of the path is resolved
// here; the granting side resolves where it leads.
func (f *grantFlags) resolvePath(name, path string) (string, error) {
	if f.isRemote {
		return path, cmdkit.RequireAbsolute(name, path)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = paths.Real(here)
	}
	return filepath.Join(here, path), err
}

// confirmGrant grants a right. If that needs a confirmation, it asks the user and grants it again,
// for exactly the path that the user was shown.
func confirmGrant(s cmdkit.Streams, g session.Grant, give func(session.Grant) error) error {
	err := give(g)
	asks, ok := errors.AsType[*session.Error](err)
	if !ok || asks.Kind != session.KindUnconfirmed || asks.Grant == nil {
		return err
	}
	g = *asks.Grant
	path := text.QuoteName(g.Read + g.Write)
	fmt.Fprintf(s.Err, "%s\n", text.EscapeInvisible(asks.Message)) // the message names links that code may have made
	if g.Accept == "" {
		err = confirmAnswer(s, fmt.Sprintf("Allow %s? [y/N] ", path), cmdkit.IsYes)
	} else {
		err = confirmAnswer(s, fmt.Sprintf("Type %s to allow it: ", path), func(answer string) bool { return answer == g.Accept || answer == path })
	}
	if err != nil {
		return err
	}
	return give(g)
}

// confirmAnswer asks the user, and returns an error unless the answer is accepted.
func confirmAnswer(s cmdkit.Streams, question string, isMeant func(answer string) bool) error {
	answer, err := cmdkit.AskUser(s, question)
	if err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if !isMeant(answer) {
		return errors.New("nothing was decided")
	}
	return nil
}

// realDirectory returns the real path of a directory that a flag names.
func realDirectory(name, dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := paths.Real(absolute)
	if err != nil {
		return "", cmdkit.UsageErrorf("%s %s: %v", name, dir, errors.Unwrap(err))
	}
	if i, err := os.Stat(real); err != nil || !i.IsDir() {
		return "", cmdkit.UsageErrorf("%s %s: not a directory", name, dir)
	}
	return real, nil
}

// saveGrant saves a right for later sessions of a workspace.
func (f *grantFlags) saveGrant(s cmdkit.Streams) (int, error) {
	g, err := f.parseGrant()
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	workspace, err := realDirectory("--dir", cmp.Or(f.dir, "."))
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	if err := confirmGrant(s, g, func(g session.Grant) error { return saveGrantFor(workspace, g) }); err != nil {
		return cmdkit.StatusFailed, err
	}
	fmt.Fprintf(s.Err, "repl: saved in %s for sessions in %s that start from now on\n", cmdflags.UserConfigFile(), workspace)
	return cmdkit.StatusDone, nil
}

// saveGrantFor saves a right for a workspace, if its path may be granted.
func saveGrantFor(workspace string, g session.Grant) (err error) {
	if g.Read+g.Write != "" {
		of := workers.Spec{Dir: workspace, Sandbox: &sandbox.Policy{Level: sandbox.Workspace}}
		if g, err = (&supervisor.Options{Env: os.Environ()}).CheckPath(&of, g); err != nil {
			return err
		}
	}
	return cmdflags.UserConfigFile().Add(workspace, g)
}

// applyTo grants a right to a session, or answers its permission request.
func (f *grantFlags) applyTo(ctx context.Context, s cmdkit.Streams, there session.Session) (int, error) {
	g, err := f.parseGrant()
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	if f.countRights() == 0 {
		return f.answerRequest(ctx, s, there)
	}
	if err := confirmGrant(s, g, func(g session.Grant) error { return there.Allow(ctx, g) }); err != nil {
		return cmdkit.StatusFailed, err
	}
	return cmdkit.StatusDone, nil
}

// answerRequest answers a permission request, according to --deny or --always, or else as the user
// answers.
func (f *grantFlags) answerRequest(ctx context.Context, s cmdkit.Streams, there session.Session) (int, error) {
	now, err := there.Info(ctx)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	if now.InputRequest != nil && now.InputRequest.Form != nil {
		return cmdkit.StatusFailed, fmt.Errorf("%s asks for an answer, not for a permission; give it with repl attach %s", there.Name(), there.Name())
	}
	if now.InputRequest == nil || now.InputRequest.Permission == nil {
		return cmdkit.StatusFailed, fmt.Errorf("%s does not ask for a permission: it is %s; --write PATH grants it a directory or file", there.Name(), now.State)
	}
	p := *now.InputRequest.Permission
	decision := console.Refuse
	switch {
	case f.refuse:
	case f.always:
		decision = console.AllowAlways
	default:
		fmt.Fprintf(s.Err, "%s\n%s", p.Question(), console.PermissionPrompt(p))
		line, err := bufio.NewReader(s.In).ReadString('\n')
		if err != nil && (!errors.Is(err, io.EOF) || line == "") {
			return cmdkit.StatusFailed, fmt.Errorf("cannot read the answer: %w", err)
		}
		var ok bool
		if decision, ok = console.ParsePermissionChoice(p, line); !ok {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("invalid answer %q; nothing was decided", strings.TrimSpace(line))
		}
	}
	if err := console.ApplyPermissionChoice(ctx, there, p, decision); err != nil {
		return cmdkit.StatusFailed, err
	}
	return cmdkit.StatusDone, nil
}
