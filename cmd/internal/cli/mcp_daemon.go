package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/cmd/internal/remote"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// daemonIdle is when a daemon that a client started ends again, unused.
	daemonIdle = time.Hour

	// markTime bounds remembering how far a client has read.
	markTime = 2 * time.Second
)

// daemonHost has the sessions of an MCP server in a daemon: they are there again
// when the server is started anew.
type daemonHost struct {
	hub    *remote.Hub
	base   string // the name of the client's main session; others of its own begin with it
	choice choice
}

// daemonChoice is whether sessions are in a daemon, and which.
type daemonChoice struct {
	use, auto    bool
	socket, name string
}

// define adds the flags that make the choice. --daemon needs no value.
func (d *daemonChoice) define(f *flag.FlagSet) {
	f.BoolFunc("daemon", "", func(how string) error {
		d.use, d.auto = how != "false", how == "auto"
		if !slices.Contains([]string{"true", "false", "auto"}, how) {
			return errors.New("want --daemon or --daemon=auto")
		}
		return nil
	})
	f.StringVar(&d.socket, "socket", "", "")
	f.StringVar(&d.name, "name", "", "")
}

// settle refuses what does not go together.
func (d *daemonChoice) settle(web webChoice) error {
	switch {
	case d.use && web.address != "":
		return misuse("--daemon and --http exclude each other")
	case !d.use && (d.socket != "" || d.name != ""):
		return misuse("--socket and --name are for --daemon")
	case d.name != "" && !sessionName.MatchString(d.name):
		return misuse("--name %s: use up to 60 letters, digits, dots, underscores and hyphens", d.name)
	}
	if d.socket == "" {
		d.socket = client.DefaultSocket(os.Getenv)
	}
	return nil
}

// serve serves an agent whose sessions are in the daemon.
func (d *daemonChoice) serve(ctx context.Context, o *mcpserver.Options, c choice) (int, error) {
	var starter func(context.Context) error
	if d.auto {
		starter = func(ctx context.Context) error { return startDaemon(ctx, d.socket) }
	}
	if d.name == "" {
		d.name = clientName() + "-" + directoryName(c.dir)
	}
	host := &daemonHost{hub: remote.NewHub(d.socket, starter), base: d.name, choice: c}
	defer host.hub.Close()
	o.Host, o.Author = host, d.name
	return statusDone, mcpserver.Run(ctx, o)
}

var sessionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$`)

// clientName tells clients apart that work in one directory, as far as they make
// themselves known.
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

// directoryName is a directory's name as a part of a session's.
func directoryName(dir string) string {
	if dir == "" {
		dir, _ = os.Getwd()
	}
	name := strings.Trim(noNameChar.ReplaceAllString(filepath.Base(dir), "-"), "-.")
	if name == "" {
		return "root"
	}
	return name[:min(len(name), 40)]
}

// startDaemon starts a daemon that outlives this process. It answers soon, or its
// words are the error.
func startDaemon(ctx context.Context, socket string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.CreateTemp("", "repl-serve-*.log")
	if err != nil {
		return err
	}
	defer os.Remove(log.Name()) // the daemon has it open
	defer log.Close()
	cmd := exec.Command(self, "serve", "--quiet", "--socket", socket, "--idle-exit", daemonIdle.String())
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = ownSession()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); {
		c, err := client.Dial(ctx, socket)
		if err == nil {
			return c.Close()
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case err := <-ended:
			timer.Stop()
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() == statusServed {
				return nil // somebody else's was faster
			}
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("repl serve ended: %v: %s", err, strings.TrimSpace(string(said)))
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
	return errors.New("repl serve does not answer within 5 s")
}

// Open implements mcpserver.Host.
func (h *daemonHost) Open(ctx context.Context, name, lang, dir string) (mcpserver.Session, bool, error) {
	switch {
	case name == mcpserver.MainSession:
		name = h.base
	case slices.Contains(languageNames(), name): // the default one of a language
		name = h.base + "-" + name
	}
	p := client.CreateParams{Name: name, Language: lang, Dir: dir}
	if p.Dir == "" {
		p.Dir = h.choice.dir
	}
	if p.Dir == "" {
		p.Dir, _ = os.Getwd() // the daemon's own means nothing here
	}
	if l, err := languageNamed(lang); err == nil {
		p.Runtime = h.choice.executable(l)
	}
	s, made, err := h.hub.Open(ctx, p, h.base)
	if err != nil {
		return nil, false, err
	}
	return hosted{s, h.base}, made, nil
}

// hosted is a session of the daemon's, for the MCP server.
type hosted struct {
	*remote.Session
	reader string
}

func (h hosted) Submit(ctx context.Context, code string) (mcpserver.Turn, error) {
	turn, err := h.Session.Submit(ctx, code)
	if err != nil {
		return nil, err
	}
	return turn, nil
}

func (h hosted) Answer(ctx context.Context, wait timeline.Seq, in supervisor.Input) (mcpserver.Turn, error) {
	turn, err := h.Session.Answer(ctx, wait, in)
	if err != nil {
		return nil, err
	}
	return turn, nil
}

func (h hosted) Active(id uint64) (mcpserver.Turn, bool) {
	i := h.Info()
	if i.Turn != id || i.State != supervisor.StateRunning && i.State != supervisor.StateWaiting {
		return nil, false
	}
	return h.TurnOf(id), true
}

func (h hosted) OutputPath() string { return h.Info().OutputPath }

// Close leaves the session to whoever comes next.
func (h hosted) Close(context.Context) error { return nil }

func (h hosted) Mark(seq timeline.Seq) timeline.Seq {
	ctx, cancel := context.WithTimeout(context.Background(), markTime)
	defer cancel()
	known, _ := h.Session.Mark(ctx, h.reader, seq)
	return known
}
