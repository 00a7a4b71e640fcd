package run

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// execFlags holds the flags of repl exec, and the values that resolveFlags derives from them.
type execFlags struct {
	daemon      *daemonlink.DaemonCommand
	code        cmdkit.CodeFlag
	wait        time.Duration
	lang        string
	worker      languages.WorkerFlag
	runtime     cmdflags.RuntimeFlags
	idleTimeout time.Duration
	confinement cmdflags.SandboxFlags
	limits      cmdflags.LimitFlags
	packages    cmdflags.PackageList
	scripts     cmdflags.ScriptFlags

	custom   languages.UserWorker // the worker of --worker; the zero value without one
	language languages.Language   // the zero value for a language that only the daemon knows
	sandbox  *sandbox.Policy
}

func (e *execFlags) AddFlags(f *flag.FlagSet) {
	e.daemon = daemonlink.NewDaemonCommand(f)
	f.Var(&e.code, "e", cmdkit.CodeUsage)
	f.DurationVar(&e.wait, "wait", 24*time.Hour, "`DURATION` how long to wait for the end or an input request")
	f.Var(languages.LanguageFlag{Target: &e.lang}, "lang", languages.LangUsage())
	f.Var(&e.worker, "worker", cmdkit.WorkerUsage)
	e.runtime.AddInterpreterFlags(f)
	f.StringVar(&e.runtime.Dir, "dir", "", "`DIR` the working directory of a session that exec creates; default this directory, or the daemon's at a remote")
	e.runtime.AddTermFlag(f)
	f.DurationVar(&e.idleTimeout, "session-idle-timeout", 0, "`DURATION` close a session that exec creates after this time without use; 0 means the daemon's setting")
	cmdkit.AddFlagGroups(f, &e.confinement, &e.limits)
	f.Var(&e.packages, "with", cmdkit.WithUsage)
	e.scripts.AddFlags(f)
	e.daemon.Log.AddFlags(f)
}

// NewExecCommand returns the command that runs code in a session of the daemon and creates the session
// if it does not exist.
func NewExecCommand(f *flag.FlagSet) cmdkit.Action {
	var o execFlags
	o.AddFlags(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := o.daemon.ParseArgs(args, "SESSION", "[FILE]")
		if err == nil && words[1] != "" && cmdkit.IsFlagSet(f, "e") {
			err = cmdkit.UsageErrorf("use either -e or the file %q, not both", words[1])
		}
		if err == nil {
			err = o.resolveFlags(s.Err, words[1])
		}
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if !cmdkit.IsFlagSet(f, "e") {
			text, err := readCode(s, words[1])
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			o.code = append(o.code, text)
		}
		if !utf8.ValidString(o.code.String()) {
			return cmdkit.StatusUsage, errNotUTF8
		}
		return o.daemon.RunWithClient(func(ctx context.Context, conn *client.Client) (int, error) {
			return o.run(ctx, s, conn, words[0])
		})
	}
}

// readCode reads the code from a file, or from standard input if the path is "".
func readCode(s cmdkit.Streams, path string) (string, error) {
	from, what := io.Reader(s.In), "standard input"
	if path != "" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		from, what = f, path
	}
	text, err := languages.ReadInput(from)
	if err != nil {
		err = fmt.Errorf("cannot read the code from %s: %w", what, err)
	}
	return strings.TrimPrefix(text, "\ufeff"), err
}

// resolveFlags checks the flags and the file, if there is one, and determines the language and the
// sandbox.
func (e *execFlags) resolveFlags(notices io.Writer, file string) (err error) {
	if e.wait < 0 || e.wait > 24*time.Hour {
		return cmdkit.UsageErrorf("--wait %s: use 0 to 24h", e.wait)
	}
	if e.idleTimeout < 0 || e.idleTimeout > 0 && e.idleTimeout < time.Second {
		return cmdkit.UsageErrorf("--session-idle-timeout %s: use at least 1s, or 0 for the daemon's setting", e.idleTimeout)
	}
	isCustom := false
	if e.custom, isCustom, err = e.worker.SingleWorker(e.lang); err != nil {
		return err
	}
	if e.lang == "" && e.runtime.Python == "" && e.runtime.R != "" {
		e.lang = "r"
	}
	if !isCustom {
		e.language, _ = languages.Find(e.lang)
	}
	if err := e.runtime.CheckExecutable(e.language); err != nil {
		return err
	}
	if err := e.daemon.ResolveTarget(); err != nil {
		return err
	}
	e.daemon.StartsDaemon = true
	e.runtime.Limits, e.runtime.IsRemote = e.limits, e.daemon.IsRemote()
	e.confinement.IsRemote = e.runtime.IsRemote
	if err := e.runtime.ResolvePaths(); err != nil {
		return err
	}
	if e.sandbox, err = e.confinement.BuildSandbox(e.daemon.Flags); err != nil {
		return err
	}
	return e.addNeeds(notices, file)
}

// addNeeds adds what the files of the command line ask for.
func (e *execFlags) addNeeds(notices io.Writer, file string) error {
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return cmdkit.UsageErrorf("cannot read the code: %v", err)
		}
	}
	chosen := e.runtime
	chosen.Lang, chosen.Worker = e.lang, e.worker
	if chosen.HasNoLanguage() && file != "" {
		e.lang = languages.OfFile(file)
		e.language, _ = languages.Find(e.lang)
		chosen.Lang = e.lang
	}
	needs, err := e.scripts.ReadScripts(notices, file, chosen.IsPython())
	if err == nil {
		err = needs.CheckConfined(file, e.sandbox.Confines())
	}
	e.packages = append(e.packages, needs.Packages...)
	e.runtime.RequiresPython = needs.RequiresPython
	return err
}

// run runs the code in a session and shows the turn.
func (e *execFlags) run(ctx context.Context, s cmdkit.Streams, conn *client.Client, name string) (int, error) {
	view := newTurnView(e.daemon, s, conn, e.wait)
	start := protocol.StartParams{Session: name, Input: e.code.String(), Author: cmdkit.CommandAuthor("exec"), WaitMS: view.firstWaitMS()}
	if e.sandbox != nil || e.limits.Limits != (workers.Limits{}) { // no code may run in a session with a weaker sandbox or limit
		if now, err := conn.GetSession(ctx, name); err == nil {
			if err := errors.Join(cmdflags.RequireSandbox(e.sandbox, now), cmdflags.RequireLimits(e.limits.Limits, now)); err != nil {
				return cmdkit.StatusFailed, err
			}
		}
	}
	if e.runtime.RequiresPython != "" { // otherwise the error would be about an interpreter for a new session
		if now, err := conn.GetSession(ctx, name); err == nil {
			if err := cmdflags.RequireVersion(e.runtime.RequiresPython, now); err != nil {
				return cmdkit.StatusFailed, err
			}
		}
	}
	var reply session.Reply
	err := session.ErrClosed
	if len(e.packages) == 0 && e.runtime.RequiresPython == "" { // an existing session must have them
		reply, err = conn.StartTurn(ctx, start)
	}
	if session.KindOf(err) == session.KindClosed {
		params, paramsErr := e.createParams(name)
		if paramsErr != nil {
			return cmdkit.StatusFailed, paramsErr
		}
		if err = createSession(ctx, s, e.daemon.DaemonTarget, conn, params); err == nil {
			view.deadline = time.Now().Add(e.wait) // the session is open only now
			start.WaitMS = view.firstWaitMS()
			reply, err = conn.StartTurn(ctx, start)
		}
	}
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	return view.showTurn(ctx, reply, 0)
}

// createParams returns the parameters of a session that exec creates.
func (e *execFlags) createParams(name string) (p protocol.CreateParams, err error) {
	if e.runtime.Dir == "" && !e.runtime.IsRemote {
		if e.runtime.Dir, err = cmdkit.WorkingDir(); err != nil {
			return p, err
		}
	}
	p = protocol.CreateParams{
		Name: name, Language: cmp.Or(e.custom.Name, e.lang), Command: e.custom.Command, Runtime: e.runtime.RuntimeInDaemon(e.language),
		Dir: cmp.Or(e.runtime.Dir, e.daemon.RemoteDir), Term: e.runtime.Term, Packages: e.packages, RequiresPython: e.runtime.RequiresPython, SessionIdleTimeoutMS: e.idleTimeout.Milliseconds(), Limits: e.limits.ClientLimits(),
	}
	cmdflags.SetSandboxParams(e.sandbox, &p)
	if !e.runtime.IsRemote {
		p.Env = cmdflags.LoginEnv(e.sandbox)
	}
	return p, nil
}

// errNotUTF8 rejects input that JSON cannot carry unchanged to a daemon.
var errNotUTF8 = cmdkit.UsageErrorf("the input is not UTF-8; convert it first, for example with iconv")

// NewInputCommand returns the command that answers an input request of a session.
func NewInputCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	var lines cmdkit.CodeFlag
	r.Flags.Var(&lines, "e", "`TEXT` the answer, instead of a line from standard input; several -e are several lines")
	eof := r.Flags.Bool("eof", false, "send end of file, after the text if there is any")
	wait := r.Flags.Duration("wait", 24*time.Hour, "`DURATION` how long to wait for the end or an input request")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, "SESSION")
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if !cmdkit.IsFlagSet(r.Flags, "e") && !*eof {
			line, err := bufio.NewReader(io.LimitReader(s.In, session.MaxInputBytes+1)).ReadString('\n')
			if err != nil && (!errors.Is(err, io.EOF) || line == "") {
				return cmdkit.StatusFailed, fmt.Errorf("cannot read the answer from standard input: %w", err)
			}
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
		text := lines.String()
		if !utf8.ValidString(text) {
			return cmdkit.StatusUsage, errNotUTF8
		}
		if text != "" || cmdkit.IsFlagSet(r.Flags, "e") || !*eof {
			text += "\n"
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			now, err := c.GetSession(ctx, words[0])
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			if now.InputRequest == nil {
				return cmdkit.StatusFailed, fmt.Errorf("%s is not waiting for input: it is %s", words[0], now.State)
			}
			if now.InputRequest.Form != nil {
				return cmdkit.StatusFailed, fmt.Errorf("%s asks the user; answer with repl attach %s", words[0], words[0])
			}
			view := newTurnView(r, s, c, *wait)
			reply, err := c.SendInput(ctx, protocol.InputParams{
				Session: words[0], InputRequest: now.InputRequest.ID, Input: text, EOF: *eof, Author: cmdkit.CommandAuthor("input"),
				WaitMS: view.firstWaitMS(), After: now.LastSeq,
			})
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			return view.showTurn(ctx, reply, now.LastSeq)
		})
	}
}

// createSession creates a session of the daemon, reports that it is new, and shows its preparation
// until that is over. An existing session must have the packages.
func createSession(ctx context.Context, s cmdkit.Streams, w daemonlink.DaemonTarget, c *client.Client, p protocol.CreateParams) error {
	now, err := c.CreateSession(ctx, p)
	if err == nil { // tells the user that an older session of this name is gone
		fmt.Fprintf(s.Err, "repl: %s is a new session\n", p.Name)
		if now.Notice != "" {
			fmt.Fprintf(s.Err, "repl: %s\n", now.Notice)
		}
		if now.CrashedTranscript != "" {
			how := fmt.Sprintf("its output is in %s, and %s %s%s writes its inputs", now.CrashedTranscript, cmdkit.RecoverCommand, now.Name, w.SameTargetFlags())
			if w.IsRemote() {
				how = fmt.Sprintf("%s %s%s %s", cmdkit.RecoverCommand, now.Name, w.SameTargetFlags(), cmdkit.RecoverHint)
			}
			fmt.Fprintf(s.Err, "repl: %s is new; the session before it crashed when its daemon was killed; %s\n", now.Name, how)
		}
	}
	if session.KindOf(err) == session.KindExists {
		if now, err = c.GetSession(ctx, p.Name); err == nil {
			err = checkPackages(now, p.Packages)
		}
	}
	if err != nil {
		return err
	}
	return cmdflags.AwaitPrepared(ctx, s.Err, c.Session(p.Name), now)
}

// checkPackages returns an error if a session lacks packages that are requested.
func checkPackages(session session.Info, with []string) error {
	l := languages.OfSession(session.Language)
	has, err := l.Packages.Canonical(session.Packages)
	if err != nil {
		return err
	}
	canonical, err := l.Packages.Canonical(with)
	if err != nil {
		return cmdkit.UsageErrorf("--with: %v", err)
	}
	for _, name := range canonical {
		if !slices.Contains(has, name) {
			return fmt.Errorf("%s already exists, without %s; use another name, or run repl close %s first", session.Name, name, session.Name)
		}
	}
	return nil
}
