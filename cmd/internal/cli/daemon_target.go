package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

const (
	// minJobTimeout is the least for which a job that was started is waited for: its daemon has to start.
	minJobTimeout = 20 * time.Second

	// jobStartTimeout bounds the command that starts the job of a place, and jobStatusTimeout the one that
	// says what became of it.
	jobStartTimeout  = time.Minute
	jobStatusTimeout = 10 * time.Second

	// remoteSilenceTimeout is after how long without a word of ours the far side ends. Ours gives up a dark
	// way after 10 s, but what wants nothing now may go on over it: to connect again may take a
	// password.
	remoteSilenceTimeout = 5 * time.Minute

	// maxCommandOutputBytes bounds what is read of either, in bytes.
	maxCommandOutputBytes = 2 << 10
)

// Descriptions of the flags that say where the daemon is.
const (
	viaUsage    = "`COMMAND` reach the daemon through this command, such as 'ssh gpu1' or 'docker exec -i box'; default TURNSTONE_VIA"
	remoteUsage = "`REMOTE` use the daemon of this remote in remotes.toml, or here for the local one; default TURNSTONE_REMOTE"
)

// A daemonTarget is the choice of a daemon: on this machine, or at a place.
type daemonTarget struct {
	socket, via, remote string

	remoteDir string // of the place, where sessions start; "" is the daemon's own. dialer sets it.

	// isAttended says that a person watches the command and may be asked at the terminal.
	isAttended bool

	// startsDaemon says that a daemon at a place is started if none is there.
	startsDaemon bool
}

func (w *daemonTarget) addFlags(f *flag.FlagSet) {
	f.StringVar(&w.socket, "socket", "", socketUsage)
	f.StringVar(&w.via, "via", "", viaUsage)
	f.StringVar(&w.remote, "remote", "", remoteUsage)
}

// resolveTarget completes the choice by the environment. It comes after the flags were parsed.
func (w *daemonTarget) resolveTarget() error {
	if w.via != "" && w.remote != "" {
		return usageErrorf("use either --via or --remote, not both")
	}
	if w.via == "" && w.remote == "" {
		w.via, w.remote = os.Getenv("TURNSTONE_VIA"), os.Getenv("TURNSTONE_REMOTE")
		if w.via != "" && w.remote != "" {
			return usageErrorf("TURNSTONE_VIA and TURNSTONE_REMOTE are both set: use one of them")
		}
	}
	if w.remote == userconfig.LocalRemote {
		w.remote = ""
	}
	if w.socket != "" && !w.isRemote() {
		var err error
		w.socket, err = absoluteSocket(w.socket)
		return err
	}
	return nil
}

// isRemote reports whether the daemon is at a place.
func (w *daemonTarget) isRemote() bool { return w.via != "" || w.remote != "" }

// localSocket is the socket on this machine.
func (w *daemonTarget) localSocket() string { return cmp.Or(w.socket, client.DefaultSocket(os.Getenv)) }

// targetArgs are those that make the same choice in another process.
func (w *daemonTarget) targetArgs() (all []string) {
	for _, one := range []struct{ name, value string }{{"--remote", w.remote}, {"--via", w.via}, {"--socket", w.socket}} {
		if one.value != "" {
			all = append(all, one.name, one.value)
		}
	}
	return all
}

// sameTargetFlags are the flags that make the same choice, for commands that a message names. They begin
// with a space unless there are none.
func (w *daemonTarget) sameTargetFlags() string {
	text := ""
	for _, word := range w.targetArgs() {
		text += " " + shellword.Quote(word)
	}
	return text
}

// dialer is the way to the daemon.
func (w *daemonTarget) dialer(ctx context.Context) (client.Dialer, error) {
	switch {
	case w.remote != "":
		p, err := findRemote(w.remote)
		if err != nil {
			return nil, err
		}
		return w.remoteDialer(ctx, w.remote, p)
	case w.via != "":
		words, err := transportcmd.SplitWords(w.via)
		if err != nil {
			return nil, usageErrorf("--via %v", err)
		}
		known, err := userconfig.ReadRemoteState(stateDir(), viaKey(words))
		if err != nil {
			return nil, err
		}
		way := w.completeCommand(&client.Command{Prefix: words, Program: known.Program, Socket: w.socket})
		w.setInstaller(way, userconfig.Remote{}, viaKey(words), known)
		return way, nil
	}
	if w.socket == "" {
		return client.DefaultDialer(os.Getenv), nil // it may move
	}
	return client.Socket(w.socket), nil
}

// completeCommand completes a command by what the person at the terminal may see and answer.
func (w *daemonTarget) completeCommand(c *client.Command) *client.Command {
	c.Prefix[0] = expandHome(c.Prefix[0])
	c.StartDaemon, c.KeepAlive = w.startsDaemon, remoteSilenceTimeout
	if w.isAttended {
		c.Terminal = controllingTerminal()
		if term.IsTerminal(int(os.Stderr.Fd())) {
			c.Stderr = os.Stderr
		}
	}
	return c
}

// remotesFile is the user's file of places.
func remotesFile() string { return userconfig.RemotesFile(os.Getenv) }

// findRemote finds a place.
func findRemote(name string) (userconfig.Remote, error) {
	all, err := userconfig.ReadRemotes(remotesFile())
	if err != nil {
		return userconfig.Remote{}, usageErrorf("%v", err)
	}
	p, ok := all[name]
	if ok {
		return p, nil
	}
	names := slices.Sorted(maps.Keys(all))
	hint := "it has " + strings.Join(names, ", ")
	if n := nearestName(name, names); n != "" {
		hint = "did you mean " + n + "?"
	} else if len(names) == 0 {
		hint = "write [remotes." + name + "] and via = \"…\" into it"
	}
	return p, usageErrorf("there is no place %q in %s; %s", name, remotesFile(), hint)
}

// remoteDialer is the way to a named place. It starts the job of a place that is one.
func (w *daemonTarget) remoteDialer(ctx context.Context, name string, p userconfig.Remote) (client.Dialer, error) {
	known, err := userconfig.ReadRemoteState(stateDir(), name)
	if err != nil {
		return nil, err
	}
	if p.NeedsJob() && known.Job == "" {
		if known.Job, err = startJob(ctx, name, p); err != nil {
			return nil, err
		}
		known.Started = time.Now()
		if err := userconfig.WriteRemoteState(stateDir(), name, known); err != nil {
			return nil, fmt.Errorf("job %s of %s is started, but cannot be remembered: %w", known.Job, name, err)
		}
	}
	w.remoteDir = p.Dir
	way := w.completeCommand(&client.Command{
		Name: name, Prefix: p.FillWords(p.Prefix, known.Job),
		Program: cmp.Or(p.Program, known.Program), Socket: cmp.Or(w.socket, p.Socket), LoginEnv: p.Login, GreetingTimeout: p.Timeout,
	})
	w.setInstaller(way, p, name, known)
	if p.NeedsJob() {
		way.StartDaemon = false // a daemon that a step of a job starts would end with the step
		way.RetryUntil = known.Started.Add(max(p.Timeout, minJobTimeout))
	}
	if len(p.DiagnoseWords) > 0 {
		way.DescribeFailure = func(ctx context.Context) string {
			ctx, stop := context.WithTimeout(ctx, jobStatusTimeout)
			defer stop()
			said, err := commandOutput(ctx, p.FillWords(p.DiagnoseWords, known.Job))
			if err != nil {
				said = strings.TrimSpace(said + "\n" + err.Error())
			}
			return fmt.Sprintf("%s says: %s", p.FillWords(p.DiagnoseWords, known.Job)[0], said)
		}
	}
	return way, nil
}

// startJob runs the command that starts the job of a place, and returns the job's name.
func startJob(ctx context.Context, name string, p userconfig.Remote) (string, error) {
	ctx, stop := context.WithTimeout(ctx, jobStartTimeout)
	defer stop()
	said, err := commandOutput(ctx, p.FillWords(p.StartWords, ""))
	if err != nil {
		if said != "" {
			err = fmt.Errorf("%w: %s", err, oneLine(errors.New(said)))
		}
		return "", fmt.Errorf("start of %s: %w", name, err)
	}
	job, _, _ := strings.Cut(said, ";") // sbatch --parsable adds the cluster
	if !transportcmd.IsPlainWord(job) {
		return "", fmt.Errorf("start of %s printed %q, which is no job's name: it has to print that and nothing else, as sbatch --parsable does", name, said)
	}
	return job, nil
}

// commandOutput runs a command here, and returns what it printed on standard output. With an error it
// is what it said on standard error.
func commandOutput(ctx context.Context, words []string) (string, error) {
	p, err := transportcmd.Command{Words: words}.Start()
	if err != nil {
		return "", err
	}
	defer p.End()
	_ = p.CloseWrite()
	defer context.AfterFunc(ctx, p.End)()
	text := make([]byte, 0, maxCommandOutputBytes)
	for {
		n, err := p.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err != nil || len(text) == cap(text) {
			break
		}
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return p.Stderr(), fmt.Errorf("%s took too long", words[0])
	case <-time.After(jobStatusTimeout):
		p.End()
	}
	if s := p.ExitState(); s == nil || !s.Success() {
		return p.Stderr(), fmt.Errorf("%s ended with %v", words[0], s)
	}
	return strings.TrimSpace(string(text)), nil
}
