package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// markTimeout bounds saving how far a client has read.
	markTimeout = 2 * time.Second

	// markWaitTimeout bounds how long an answer waits for the mark to be saved. Unless the daemon
	// is stuck, the mark is saved before the answer: a client that is killed right after an answer
	// does not get it again.
	markWaitTimeout = 100 * time.Millisecond

	// remoteReconnectTimeout is how long a request about a session waits for an unreachable remote. Running
	// code is waited for as long as the call allows.
	remoteReconnectTimeout = 10 * time.Second

	// finalMarkTimeout bounds the wait for the mark when the client leaves.
	finalMarkTimeout = 200 * time.Millisecond
)

// A daemonBackend keeps the sessions of an MCP server in a daemon, so that a restarted server finds
// them again.
type daemonBackend struct {
	link        *client.Client
	targetFlags string // for repl attach, unless the daemon is the default one
	isRemote    bool   // the daemon is on another machine, where local directories mean nothing
	baseName    string // the client's main session; the names of its other sessions start with it
	runtime     runtimeFlags
	packages    []string // required in its sessions
	closeAll    func()   // closes the connection and everything that supports it
}

// daemonFlags says whether sessions are in a daemon, and in which one.
type daemonFlags struct {
	enabled, autoStart bool
	sessionPrefix      string
	remotes            remotesFlag // for sessions named REMOTE/NAME
	daemonTarget
}

// addFlags adds the flags. --daemon needs no value.
func (d *daemonFlags) addFlags(f *flag.FlagSet) {
	f.BoolFunc("daemon", "`auto` keep sessions in the daemon of repl serve, where they outlive the client; auto starts it if needed, and it exits after "+text.DurationWords(daemonIdleTimeout)+" without use", func(how string) error {
		d.enabled, d.autoStart = how != "false", how == "auto"
		if !slices.Contains([]string{"true", "false", "auto"}, how) {
			return errors.New("use --daemon or --daemon=auto")
		}
		return nil
	})
	d.daemonTarget.addFlags(f)
	f.Var(&d.remotes, "remotes", remotesUsage)
	f.StringVar(&d.sessionPrefix, "name", "", "`NAME` how names of sessions in the daemon begin; default the client and the directory")
}

// resolveDaemon rejects flags that contradict each other.
func (d *daemonFlags) resolveDaemon(web httpFlags) error {
	if err := d.resolveTarget(); err != nil {
		return err
	}
	if err := d.remotes.resolveNames(&d.daemonTarget); err != nil {
		return err
	}
	d.autoStart = d.autoStart || len(d.remotes) > 0 && !d.enabled
	d.enabled = d.enabled || d.isRemote() || len(d.remotes) > 0
	d.startsDaemon = true
	switch {
	case (d.isRemote() || len(d.remotes) > 0) && web.address != "":
		return cmdkit.UsageErrorf("--http serves only its own sessions; start it at the remote itself, or use --via, --remote and --remotes without it")
	case d.enabled && web.address != "":
		return cmdkit.UsageErrorf("use either --daemon or --http, not both")
	case !d.enabled && (d.socket != "" || d.sessionPrefix != ""):
		return cmdkit.UsageErrorf("--socket and --name are for --daemon")
	case d.sessionPrefix != "" && (len(d.sessionPrefix) > maxBaseName || !session.IsValidName(d.sessionPrefix)):
		return cmdkit.UsageErrorf("--name %s: use up to %d letters, digits, dots, underscores and hyphens", d.sessionPrefix, maxBaseName)
	}
	return nil
}

// serve serves an agent whose sessions are in a daemon. Messages for a user who reads the client's
// log go to notes.
func (d *daemonFlags) serve(ctx context.Context, o *mcpserver.Options, c runtimeFlags, notes io.Writer) (int, error) {
	var starter func(context.Context) error
	if d.autoStart && !d.isRemote() {
		starter = func(ctx context.Context) error { return ensureDaemon(ctx, d.localSocket(), notes) }
	}
	defaultBackend, err := d.newBackend(ctx, o, c, starter)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	hosts := newRemotesBackend(d, defaultBackend, func(ctx context.Context, remote string) (*daemonBackend, error) {
		flags := daemonFlags{sessionPrefix: defaultBackend.baseName, daemonTarget: daemonTarget{remote: remote, startsDaemon: true}}
		return flags.newBackend(ctx, o, c.forRemotes(), nil)
	})
	defer hosts.close()
	o.Backend, o.Author = hosts, defaultBackend.baseName
	return cmdkit.StatusDone, mcpserver.Run(ctx, o)
}

// newBackend returns a backend for the chosen daemon. It connects at the first use; only a remote's
// job is started at once.
func (d *daemonFlags) newBackend(ctx context.Context, o *mcpserver.Options, c runtimeFlags, starter func(context.Context) error) (*daemonBackend, error) {
	dialer, err := d.dialer(ctx)
	if err != nil {
		return nil, err
	}
	noMoreAsking := func() {}
	if transport, ok := dialer.(*client.CommandDialer); ok {
		noMoreAsking = startAskpass(transport, o.Logger)
	}
	c.dir = cmp.Or(c.dir, d.remoteDir)
	h := &daemonBackend{
		link: client.New(dialer, starter), targetFlags: d.sameTargetFlags(), isRemote: d.isRemote(),
		baseName: cmp.Or(d.sessionPrefix, mcpClientName()+"-"+directoryName(c.dir)), runtime: c, packages: o.With,
	}
	h.link.LogTo(o.Logger)
	h.link.SetReconnectTimeout(remoteReconnectTimeout)
	h.closeAll = func() {
		h.link.Close()
		noMoreAsking()
	}
	return h, nil
}

// maxBaseName leaves room after --name for the name of a language.
const maxBaseName = 64 - len("-python")

// mcpClientName distinguishes clients that work in the same directory, if they identify themselves.
func mcpClientName() string {
	switch {
	case os.Getenv("CLAUDECODE") != "":
		return "claude"
	case os.Getenv("GEMINI_CLI") != "":
		return "gemini"
	}
	return "mcp"
}

// directoryName returns the part of a session's name that stands for a directory. It differs for
// directories with the same base name.
func directoryName(dir string) string {
	if dir == "" {
		dir, _ = os.Getwd()
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	name := sessionNamePart(filepath.Base(dir))
	if name == "" {
		name = "root"
	}
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%s-%x", name[:min(len(name), 30)], sum[:2])
}

// Open implements backend.Backend for one daemon.
func (b *daemonBackend) Open(ctx context.Context, name, lang, dir string, narrow func(*workers.Sandbox) *workers.Sandbox, report func(string)) (*backend.SessionHandle, error) {
	switch {
	case name == backend.MainSession:
		name = b.baseName
	case b.isLanguage(name): // the default session of the language
		name = b.baseName + "-" + name
	}
	if b.isRemote {
		dir = ""
	}
	p := client.CreateParams{Name: name, Language: lang, Dir: dir, Limits: b.runtime.limits.ClientLimits()}
	sandbox := narrow(b.runtime.sandbox)
	if configured := b.runtime.sandbox; sandbox != configured && (configured == nil || len(sandbox.Hidden) > len(configured.Hidden)) && len(sandbox.Hidden) > 0 {
		return nil, errors.New("the client hides some files from its own commands, which sessions of a daemon cannot do; start repl mcp without --daemon")
	}
	setSandboxParams(sandbox, &p)
	if p.Dir == "" {
		p.Dir = b.runtime.dir
	}
	if !b.isRemote {
		p.Env = loginEnv(sandbox)
	}
	if p.Dir == "" && !b.isRemote {
		var err error
		if p.Dir, err = cmdkit.WorkingDir(); err != nil {
			return nil, err
		}
	}
	if custom, ok := b.runtime.worker.findWorker(lang); ok {
		p.Command = custom.command
	} else if l, err := findLanguage(lang); err == nil {
		c := b.runtime
		c.isRemote, c.dir = b.isRemote, p.Dir
		p.Runtime = c.runtimeInDaemon(l)
	}
	if lang != "" {
		p.Packages = b.packages
	}
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	opened, now, made, err := b.link.OpenSession(bounded, p)
	if err == nil && !made {
		err = errors.Join(requireSandbox(sandbox, now), cmdflags.RequireLimits(b.runtime.limits.Limits, now))
	}
	if err != nil {
		return nil, err
	}
	preparing := now.State == session.StatePreparing
	err = session.FollowPreparation(ctx, opened, now, func(p timeline.Preparation) { report(p.Text()) })
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	s, read, err := opened.ReadAs(ctx, b.baseName) // the session says why its preparation failed
	if err == nil && preparing {
		now, err = s.Info(ctx)
	}
	if err != nil {
		if len(now.Packages) > 0 && session.KindOf(err) == session.KindStart {
			err = &backend.PrepareError{Err: err}
		}
		return nil, err
	}
	o := b.openedSession(s, read, now)
	o.IsNew, o.Sandbox = made, sandbox
	if !made && len(b.packages) > 0 {
		o.MissingPackages, err = b.missingPackages(now.Packages)
	}
	return o, err
}

// isLanguage reports whether a name is the name of a language.
func (b *daemonBackend) isLanguage(name string) bool {
	_, isCustom := b.runtime.worker.findWorker(name)
	return isCustom || slices.Contains(languageNames(), name)
}

// missingPackages returns the packages that the client requires and an existing session lacks.
func (b *daemonBackend) missingPackages(has []string) ([]string, error) {
	l, err := findLanguage(b.runtime.lang)
	if err != nil {
		return nil, err
	}
	if has, err = l.packages.Canonical(has); err != nil { // a session of another language
		return b.packages, nil
	}
	return slices.DeleteFunc(slices.Clone(b.packages), func(name string) bool { return slices.Contains(has, name) }), nil
}

// Sessions implements backend.Backend for one daemon.
func (b *daemonBackend) Sessions(ctx context.Context) ([]session.Info, error) {
	all, err := b.link.ListSessions(ctx)
	for i, s := range all {
		own, ok := strings.CutPrefix(s.Name, b.baseName)
		own = strings.TrimPrefix(own, "-")
		switch {
		case ok && own == "":
			all[i].Name = backend.MainSession
		case ok && b.isLanguage(own):
			all[i].Name = own
		}
	}
	return all, err
}

// openedSession wraps a session of the daemon for the MCP server, which reads it from read on under
// its own name.
func (b *daemonBackend) openedSession(s *client.Session, read timeline.Seq, now session.Info) *backend.SessionHandle {
	mark := &readCursorSaver{save: func(seq timeline.Seq) {
		ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
		defer cancel()
		_, _ = s.SaveReadCursor(ctx, seq)
	}}
	opened := &backend.SessionHandle{
		Session:     s,
		InitialInfo: now,
		OutputPath:  func() string { return now.OutputPath },
		Leave: func(context.Context) error { // the session stays for later clients
			mark.waitSaved(finalMarkTimeout)
			return nil
		},
		AttachCommand: "repl attach " + s.Name() + b.targetFlags,
		AllowCommand:  func(g session.Grant) string { return "repl grant " + s.Name() + b.targetFlags + " " + rightOption(g) },
		LastSeen:      read,
		SaveCursor: func(seq timeline.Seq) {
			mark.saveAt(seq)
			mark.waitSaved(markWaitTimeout)
		},
	}
	if b.isRemote {
		opened.IsRemote, opened.ImageDir = true, sessionImageDir(b.targetFlags, s.Name())
		opened.RewriteEvent = crashNoticeRewriter(now, b.targetFlags)
		opened.FetchCommand = cmdkit.FilesCommand + " " + s.Name() + " " + timeline.OutputName + b.targetFlags
	}
	if b.link.IsRemote() { // every round trip costs time there: a mark is sent with the next turn
		opened.Link, opened.SaveCursor = b.link, s.NoteReadCursor
		opened.Leave = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, finalMarkTimeout)
			defer cancel()
			_ = s.FlushReadCursor(ctx)
			return nil
		}
	}
	return opened
}

// A readCursorSaver saves in the background how far a client has read. An answer does not wait for
// a daemon that is stuck, and of several moves only the last must be saved.
type readCursorSaver struct {
	save func(timeline.Seq)

	mu    sync.Mutex
	seq   timeline.Seq  // guarded by mu: the last position
	saved chan struct{} // guarded by mu: closed when the position is saved; nil if it has never moved
	busy  bool          // guarded by mu
}

func (s *readCursorSaver) saveAt(seq timeline.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq = seq
	if s.busy {
		return
	}
	s.busy, s.saved = true, make(chan struct{})
	go func() {
		for sent := timeline.Seq(0); ; {
			s.mu.Lock()
			next := s.seq
			if next == sent {
				s.busy = false
				close(s.saved)
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			s.save(next)
			sent = next
		}
	}()
}

// waitSaved waits until the last position is saved, at most for limit.
func (s *readCursorSaver) waitSaved(limit time.Duration) {
	s.mu.Lock()
	moved := s.saved
	s.mu.Unlock()
	if moved == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-moved:
	case <-timer.C:
	}
}
