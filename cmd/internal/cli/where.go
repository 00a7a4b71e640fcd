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
	"github.com/turnstone-repl/turnstone/cmd/internal/kept"
	"github.com/turnstone-repl/turnstone/internal/prefix"
	"github.com/turnstone-repl/turnstone/internal/shellword"
)

const (
	// jobTime is the least for which a job that was started is waited for: its daemon has to start.
	jobTime = 20 * time.Second

	// startTime bounds the command that starts the job of a place, and afterTime the one that
	// says what became of it.
	startTime = time.Minute
	afterTime = 10 * time.Second

	// farSilence is after how long without a word of ours the far side ends. Ours gives up a dark
	// way after 10 s, but what wants nothing now may go on over it: to connect again may take a
	// password.
	farSilence = 5 * time.Minute

	// maxAnswer bounds what is read of either, in bytes.
	maxAnswer = 2 << 10
)

// Descriptions of the flags that say where the daemon is.
const (
	viaWords   = "`COMMAND` the daemon is where this command leads, such as 'ssh gpu1' or 'docker exec -i box'; default REPL_VIA"
	placeWords = "`PLACE` the daemon is at this place of places.toml, or here; default REPL_PLACE"
)

// A where is the choice of a daemon: on this machine, or at a place.
type where struct {
	socket, via, place string

	dir string // of the place, where sessions start; "" is the daemon's own. dialer sets it.

	// attended says that a person watches the command and may be asked at the terminal.
	attended bool

	// starts says that a daemon at a place is started if none is there.
	starts bool
}

func (w *where) define(f *flag.FlagSet) {
	f.StringVar(&w.socket, "socket", "", socketWords)
	f.StringVar(&w.via, "via", "", viaWords)
	f.StringVar(&w.place, "place", "", placeWords)
}

// choose completes the choice by the environment. It comes after the flags were parsed.
func (w *where) choose() error {
	if w.via != "" && w.place != "" {
		return misuse("use either --via or --place, not both")
	}
	if w.via == "" && w.place == "" {
		w.via, w.place = os.Getenv("REPL_VIA"), os.Getenv("REPL_PLACE")
		if w.via != "" && w.place != "" {
			return misuse("REPL_VIA and REPL_PLACE are both set: use one of them")
		}
	}
	if w.place == kept.HerePlace {
		w.place = ""
	}
	if w.socket != "" && !w.isAway() {
		var err error
		w.socket, err = wholeSocket(w.socket)
		return err
	}
	return nil
}

// isAway reports whether the daemon is at a place.
func (w *where) isAway() bool { return w.via != "" || w.place != "" }

// here is the socket on this machine.
func (w *where) here() string { return cmp.Or(w.socket, client.DefaultSocket(os.Getenv)) }

// flags are those that make the same choice in another process.
func (w *where) flags() (all []string) {
	for _, one := range []struct{ name, value string }{{"--place", w.place}, {"--via", w.via}, {"--socket", w.socket}} {
		if one.value != "" {
			all = append(all, one.name, one.value)
		}
	}
	return all
}

// again are the flags that make the same choice, for commands that a message names. They begin
// with a space unless there are none.
func (w *where) again() string {
	text := ""
	for _, word := range w.flags() {
		text += " " + shellword.Quote(word)
	}
	return text
}

// dialer is the way to the daemon.
func (w *where) dialer(ctx context.Context) (client.Dialer, error) {
	switch {
	case w.place != "":
		p, err := placeNamed(w.place)
		if err != nil {
			return nil, err
		}
		return w.wayTo(ctx, w.place, p)
	case w.via != "":
		words, err := prefix.SplitWords(w.via)
		if err != nil {
			return nil, misuse("--via %v", err)
		}
		known, err := kept.Recall(stateDir(), viaKey(words))
		if err != nil {
			return nil, err
		}
		way := w.command(&client.Command{Prefix: words, Program: known.Program, Socket: w.socket})
		w.bringing(way, kept.Place{}, viaKey(words), known)
		return way, nil
	}
	if w.socket == "" {
		return client.DefaultDialer(os.Getenv), nil // it may move
	}
	return client.Socket(w.socket), nil
}

// command completes a command by what the person at the terminal may see and answer.
func (w *where) command(c *client.Command) *client.Command {
	c.Prefix[0] = fromHome(c.Prefix[0])
	c.StartDaemon, c.KeepAlive = w.starts, farSilence
	if w.attended {
		c.Terminal = controllingTerminal()
		if term.IsTerminal(int(os.Stderr.Fd())) {
			c.Stderr = os.Stderr
		}
	}
	return c
}

// placesFile is the user's file of places.
func placesFile() string { return kept.PlacesFile(os.Getenv) }

// placeNamed finds a place.
func placeNamed(name string) (kept.Place, error) {
	all, err := kept.Places(placesFile())
	if err != nil {
		return kept.Place{}, misuse("%v", err)
	}
	p, ok := all[name]
	if ok {
		return p, nil
	}
	names := slices.Sorted(maps.Keys(all))
	hint := "it has " + strings.Join(names, ", ")
	if n := nearest(name, names); n != "" {
		hint = "did you mean " + n + "?"
	} else if len(names) == 0 {
		hint = "write [places." + name + "] and via = \"…\" into it"
	}
	return p, misuse("there is no place %q in %s; %s", name, placesFile(), hint)
}

// wayTo is the way to a named place. It starts the job of a place that is one.
func (w *where) wayTo(ctx context.Context, name string, p kept.Place) (client.Dialer, error) {
	known, err := kept.Recall(stateDir(), name)
	if err != nil {
		return nil, err
	}
	if p.NeedsJob() && known.Job == "" {
		if known.Job, err = startJob(ctx, name, p); err != nil {
			return nil, err
		}
		known.Begun = time.Now()
		if err := kept.Remember(stateDir(), name, known); err != nil {
			return nil, fmt.Errorf("job %s of %s is started, but cannot be remembered: %w", known.Job, name, err)
		}
	}
	w.dir = p.Dir
	way := w.command(&client.Command{
		Name: name, Prefix: p.Filled(p.Prefix, known.Job),
		Program: cmp.Or(p.Repl, known.Program), Socket: cmp.Or(w.socket, p.Socket), LoginEnv: p.Login, GreetingTimeout: p.Patience,
	})
	w.bringing(way, p, name, known)
	if p.NeedsJob() {
		way.StartDaemon = false // a daemon that a step of a job starts would end with the step
		way.RetryUntil = known.Begun.Add(max(p.Patience, jobTime))
	}
	if len(p.AfterWords) > 0 {
		way.DescribeFailure = func(ctx context.Context) string {
			ctx, stop := context.WithTimeout(ctx, afterTime)
			defer stop()
			said, err := answerOf(ctx, p.Filled(p.AfterWords, known.Job))
			if err != nil {
				said = strings.TrimSpace(said + "\n" + err.Error())
			}
			return fmt.Sprintf("%s says: %s", p.Filled(p.AfterWords, known.Job)[0], said)
		}
	}
	return way, nil
}

// startJob runs the command that starts the job of a place, and returns the job's name.
func startJob(ctx context.Context, name string, p kept.Place) (string, error) {
	ctx, stop := context.WithTimeout(ctx, startTime)
	defer stop()
	said, err := answerOf(ctx, p.Filled(p.StartWords, ""))
	if err != nil {
		if said != "" {
			err = fmt.Errorf("%w: %s", err, oneLine(errors.New(said)))
		}
		return "", fmt.Errorf("start of %s: %w", name, err)
	}
	job, _, _ := strings.Cut(said, ";") // sbatch --parsable adds the cluster
	if !prefix.IsPlainWord(job) {
		return "", fmt.Errorf("start of %s printed %q, which is no job's name: it has to print that and nothing else, as sbatch --parsable does", name, said)
	}
	return job, nil
}

// answerOf runs a command here, and returns what it printed on standard output. With an error it
// is what it said on standard error.
func answerOf(ctx context.Context, words []string) (string, error) {
	p, err := prefix.Command{Words: words}.Start()
	if err != nil {
		return "", err
	}
	defer p.End()
	_ = p.CloseWrite()
	defer context.AfterFunc(ctx, p.End)()
	text := make([]byte, 0, maxAnswer)
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
	case <-time.After(afterTime):
		p.End()
	}
	if s := p.ExitState(); s == nil || !s.Success() {
		return p.Stderr(), fmt.Errorf("%s ended with %v", words[0], s)
	}
	return strings.TrimSpace(string(text)), nil
}
