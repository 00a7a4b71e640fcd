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
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// daemonIdle is the time without use after which a daemon that a client started ends.
	// An agent that starts again the next morning finds its session.
	daemonIdle = 24 * time.Hour

	// markTime bounds storing how far a client has read.
	markTime = 2 * time.Second

	// markPatience bounds how long an answer waits for that. So the mark is stored before
	// the answer, unless the daemon is stuck: a client that is killed right after an
	// answer does not get it again.
	markPatience = 100 * time.Millisecond

	// linkPatience is how long a question about a session waits for a place that cannot be
	// reached; running code is waited for as long as the call says.
	linkPatience = 10 * time.Second

	// lastMark bounds the wait for it when the client leaves.
	lastMark = 200 * time.Millisecond
)

// daemonHost keeps the sessions of an MCP server in a daemon, so that the server finds them
// again when it is started again.
type daemonHost struct {
	link   *client.Link
	where  string // of repl attach: which daemon, unless it is the usual one
	away   bool   // the daemon is not on this machine, and directories of this one mean nothing there
	base   string // the name of the client's main session; others of its own begin with it
	choice choice
	with   []string // packages that its sessions need
	end    func()   // of the link, and of what the way to it needs
}

// openTime bounds opening a session, and starting the daemon for it, without preparation.
const openTime = 30 * time.Second

// daemonChoice says whether sessions are in a daemon, and in which.
type daemonChoice struct {
	use, auto bool
	name      string
	places    placesFlag // others, for sessions named PLACE/NAME
	where
}

// define adds the flags that make the choice. --daemon needs no value.
func (d *daemonChoice) define(f *flag.FlagSet) {
	f.BoolFunc("daemon", "`auto` sessions are those of repl serve and outlive the client; auto starts it if needed, and it ends after "+hours(daemonIdle)+" without use", func(how string) error {
		d.use, d.auto = how != "false", how == "auto"
		if !slices.Contains([]string{"true", "false", "auto"}, how) {
			return errors.New("use --daemon or --daemon=auto")
		}
		return nil
	})
	d.where.define(f)
	f.Var(&d.places, "places", placesWords)
	f.StringVar(&d.name, "name", "", "`NAME` the beginning of the names of sessions in the daemon; default the client and the directory")
}

// check refuses flags that contradict each other.
func (d *daemonChoice) check(web webChoice) error {
	if err := d.choose(); err != nil {
		return err
	}
	if err := d.places.resolve(&d.where); err != nil {
		return err
	}
	d.auto = d.auto || len(d.places) > 0 && !d.use
	d.use = d.use || d.isAway() || len(d.places) > 0
	d.starts = true
	switch {
	case (d.isAway() || len(d.places) > 0) && web.address != "":
		return misuse("--http serves sessions of its own: start it at the place itself, or use --via, --place and --places without it")
	case d.use && web.address != "":
		return misuse("use either --daemon or --http, not both")
	case !d.use && (d.socket != "" || d.name != ""):
		return misuse("--socket and --name are for --daemon")
	case d.name != "" && (len(d.name) > maxBase || !session.IsValidName(d.name)):
		return misuse("--name %s: use up to %d letters, digits, dots, underscores and hyphens", d.name, maxBase)
	}
	return nil
}

// serve serves an agent whose sessions are in the daemon. notes gets messages for a person
// who reads the client's log.
func (d *daemonChoice) serve(ctx context.Context, o *mcpserver.Options, c choice, notes io.Writer) (int, error) {
	var starter func(context.Context) error
	if d.auto && !d.isAway() {
		starter = func(ctx context.Context) error { return ensureDaemon(ctx, d.here(), notes) }
	}
	usual, err := d.host(ctx, o, c, starter)
	if err != nil {
		return statusFailed, err
	}
	hosts := newPlacesHost(d, usual, func(ctx context.Context, place string) (*daemonHost, error) {
		there := daemonChoice{name: usual.base, where: where{place: place, starts: true}}
		return there.host(ctx, o, c.elsewhere(), nil)
	})
	defer hosts.close()
	o.Backend, o.Author = hosts, usual.base
	return statusDone, mcpserver.Run(ctx, o)
}

// host is the daemon of the choice as a host. It is dialled when it is used first; but a place
// that is a job is started.
func (d *daemonChoice) host(ctx context.Context, o *mcpserver.Options, c choice, starter func(context.Context) error) (*daemonHost, error) {
	way, err := d.dialer(ctx)
	if err != nil {
		return nil, err
	}
	noMoreAsking := func() {}
	if over, ok := way.(*client.Command); ok {
		noMoreAsking = askFor(over, o.Logger)
	}
	c.dir = cmp.Or(c.dir, d.dir)
	h := &daemonHost{
		link: client.NewLink(way, starter), where: d.again(), away: d.isAway(),
		base: cmp.Or(d.name, clientName()+"-"+directoryName(c.dir)), choice: c, with: o.With,
	}
	h.link.LogTo(o.Logger)
	h.link.SetReconnectTimeout(linkPatience)
	h.end = func() {
		h.link.Close()
		noMoreAsking()
	}
	return h, nil
}

// maxBase leaves room behind --name for that of a language.
const maxBase = 64 - len("-python")

// clientName distinguishes clients that work in one directory, if they identify themselves.
func clientName() string {
	switch {
	case os.Getenv("CLAUDECODE") != "":
		return "claude"
	case os.Getenv("GEMINI_CLI") != "":
		return "gemini"
	}
	return "mcp"
}

var noNameChar = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// directoryName returns the part of a session's name that stands for a directory.
// Directories with the same last element have different ones.
func directoryName(dir string) string {
	if dir == "" {
		dir, _ = os.Getwd()
	}
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	name := strings.Trim(noNameChar.ReplaceAllString(filepath.Base(dir), "-"), "-.")
	if name == "" {
		name = "root"
	}
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%s-%x", name[:min(len(name), 30)], sum[:2])
}

// Open is that of mcpserver.Backend for one place.
func (h *daemonHost) Open(ctx context.Context, name, lang, dir string, narrow func(*workers.Sandbox) *workers.Sandbox, report func(string)) (*mcpserver.SessionHandle, error) {
	switch {
	case name == mcpserver.MainSession:
		name = h.base
	case h.isLanguage(name): // its default session
		name = h.base + "-" + name
	}
	if h.away {
		dir = ""
	}
	p := client.CreateParams{Name: name, Language: lang, Dir: dir, Limits: h.choice.limits.wire()}
	sandbox := narrow(h.choice.sandbox)
	if ours := h.choice.sandbox; sandbox != ours && (ours == nil || len(sandbox.Hidden) > len(ours.Hidden)) && len(sandbox.Hidden) > 0 {
		return nil, errors.New("the client denies its own commands some files, which no session of a daemon hides: start repl mcp without --daemon")
	}
	asked(sandbox, &p)
	if p.Dir == "" {
		p.Dir = h.choice.dir
	}
	if !h.away {
		p.Env = ofLogin(sandbox)
	}
	if p.Dir == "" && !h.away {
		var err error
		if p.Dir, err = workingDir(); err != nil {
			return nil, err
		}
	}
	if own, ok := h.choice.worker.named(lang); ok {
		p.Command = own.command
	} else if l, err := languageNamed(lang); err == nil {
		c := h.choice
		c.away, c.dir = h.away, p.Dir
		p.Runtime = c.runtimeInDaemon(l)
	}
	if lang != "" {
		p.Packages = h.with
	}
	bounded, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	there, now, made, err := h.link.OpenSession(bounded, p)
	if err == nil && !made {
		err = errors.Join(mustHold(sandbox, now), mustLimit(h.choice.limits.Limits, now))
	}
	if err != nil {
		return nil, err
	}
	preparing := now.State == session.StatePreparing
	err = session.FollowPreparation(ctx, there, now, func(p timeline.Preparation) { report(p.Text()) })
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	s, read, err := there.ReadAs(ctx, h.base) // which says why it could not be prepared
	if err == nil && preparing {
		now, err = s.Info(ctx)
	}
	if err != nil {
		if len(now.Packages) > 0 && session.KindOf(err) == session.KindStart {
			err = &mcpserver.PrepareError{Err: err}
		}
		return nil, err
	}
	o := h.opened(s, read, now)
	o.IsNew, o.Sandbox = made, sandbox
	if !made && len(h.with) > 0 {
		o.MissingPackages, err = h.lacks(now.Packages)
	}
	return o, err
}

// isLanguage reports whether a name is that of a language.
func (h *daemonHost) isLanguage(name string) bool {
	_, own := h.choice.worker.named(name)
	return own || slices.Contains(languageNames(), name)
}

// lacks returns the packages that the client needs and an existing session does not have.
func (h *daemonHost) lacks(has []string) ([]string, error) {
	l, err := languageNamed(h.choice.lang)
	if err != nil {
		return nil, err
	}
	if has, err = l.packages.Canonical(has); err != nil { // of another language
		return h.with, nil
	}
	return slices.DeleteFunc(slices.Clone(h.with), func(name string) bool { return slices.Contains(has, name) }), nil
}

// Sessions is that of mcpserver.Backend for one place.
func (h *daemonHost) Sessions(ctx context.Context) ([]session.Info, error) {
	all, err := h.link.ListSessions(ctx)
	for i, s := range all {
		own, ok := strings.CutPrefix(s.Name, h.base)
		own = strings.TrimPrefix(own, "-")
		switch {
		case ok && own == "":
			all[i].Name = mcpserver.MainSession
		case ok && h.isLanguage(own):
			all[i].Name = own
		}
	}
	return all, err
}

// opened wraps a session of the daemon for the MCP server, which reads it from read on under
// its own name.
func (h *daemonHost) opened(s *client.Session, read timeline.Seq, now session.Info) *mcpserver.SessionHandle {
	mark := &bookmark{send: func(seq timeline.Seq) {
		ctx, cancel := context.WithTimeout(context.Background(), markTime)
		defer cancel()
		_, _ = s.SaveReadCursor(ctx, seq)
	}}
	opened := &mcpserver.SessionHandle{
		Session:     s,
		InitialInfo: now,
		OutputPath:  func() string { return now.OutputPath },
		Leave: func(context.Context) error { // the session stays for later clients
			mark.wait(lastMark)
			return nil
		},
		AttachCommand: "repl attach " + s.Name() + h.where,
		AllowCommand:  func(g session.Grant) string { return "repl allow " + s.Name() + h.where + " " + rightOption(g) },
		LastSeen:      read,
		SaveCursor: func(seq timeline.Seq) {
			mark.move(seq)
			mark.wait(markPatience)
		},
	}
	if h.away {
		opened.IsRemote, opened.ImageDir = true, picturesOf(h.where, s.Name())
		opened.RewriteEvent = lossTold(now, h.where)
		opened.FetchCommand = filesCommand + " " + s.Name() + " " + timeline.OutputName + h.where
	}
	if h.link.IsRemote() { // where each trip costs: a mark goes with the next turn
		opened.Link, opened.SaveCursor = h.link, s.NoteReadCursor
		opened.Leave = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, lastMark)
			defer cancel()
			_ = s.FlushReadCursor(ctx)
			return nil
		}
	}
	return opened
}

// A bookmark stores in the background how far a client has read. An answer does not wait for
// a daemon that is stuck, and of several moves only the last must be stored.
type bookmark struct {
	send func(timeline.Seq)

	mu    sync.Mutex
	seq   timeline.Seq  // guarded by mu: the last position
	moved chan struct{} // guarded by mu: closed when it is stored; nil when it was never moved
	busy  bool          // guarded by mu
}

func (b *bookmark) move(seq timeline.Seq) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq = seq
	if b.busy {
		return
	}
	b.busy, b.moved = true, make(chan struct{})
	go func() {
		for sent := timeline.Seq(0); ; {
			b.mu.Lock()
			next := b.seq
			if next == sent {
				b.busy = false
				close(b.moved)
				b.mu.Unlock()
				return
			}
			b.mu.Unlock()
			b.send(next)
			sent = next
		}
	}()
}

// wait waits until the last position is stored, at most for limit.
func (b *bookmark) wait(limit time.Duration) {
	b.mu.Lock()
	moved := b.moved
	b.mu.Unlock()
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
