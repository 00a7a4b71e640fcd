package cli

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/terminal"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// attach lets a person see what happened in a session of the daemon's, and take
// part in it.
func attach(s streams, args []string) (int, error) {
	r := newDaemonCommand("attach")
	watch := r.flags.Bool("watch", false, "")
	hold := r.flags.Bool("hold", false, "")
	// One person may be there twice, and each must see what the other one types.
	self := r.flags.String("as", commandAuthor(strconv.Itoa(os.Getpid())), "")
	given, err := r.parse(args, "NAME")
	if err != nil {
		return statusUsage, err
	}
	if *watch && *hold {
		return statusUsage, misuse("--watch and --hold exclude each other")
	}
	if *self == "" || !client.IsAuthor(*self) {
		return statusUsage, misuse("--as %q: want a name of up to %d bytes without control characters and such as nobody sees", *self, client.MaxAuthorBytes)
	}
	if *watch {
		return r.use(func(ctx context.Context, c *client.Client) (int, error) {
			return follow(ctx, s, c, given[0], 0, true, newEventPrinter())
		})
	}
	if !terminal.Usable() {
		return statusUsage, misuse("attach needs a terminal; --watch shows the session without one")
	}
	return r.use(func(ctx context.Context, c *client.Client) (int, error) {
		session, err := c.Get(ctx, given[0])
		if err != nil {
			return statusFailed, err
		}
		hub := remote.NewHub(r.socket, nil)
		defer hub.Close()
		a := &attached{Session: hub.Session(session.Name, *self), hold: *hold}
		if *hold {
			if err := a.Take(ctx, true); err != nil {
				return statusFailed, err
			}
		}
		continuation, history := "", ""
		if l, err := languageNamed(session.Language); err == nil {
			continuation, history = l.continuation, historyPath(l.name)
		}
		status, err := terminal.Run(ctx, a, &terminal.Options{
			Continuation: continuation,
			HistoryPath:  history,
			Graphics:     terminal.DetectGraphics(os.Getenv),
			Plain:        os.Getenv("TERM") == "dumb",
			Self:         *self,
			Replay:       session.LastSeq,
			GoesOn:       true,
			ExitStatus:   exitStatus,
		})
		if err != nil {
			return status, err
		}
		if err := a.ended(); err != nil {
			return statusFailed, err
		}
		fmt.Fprintf(s.err, "[detached: %s goes on; repl close %s ends it]\n", session.Name, session.Name)
		return status, nil
	})
}

// attached is a session of the daemon's, for the terminal: one who writes has the
// keyboard until the turn is over.
type attached struct {
	*remote.Session
	hold bool // the keyboard is taken for as long as the person is here

	mu    sync.Mutex
	taken bool  // guarded by mu: the keyboard, for a turn of the person's
	err   error // guarded by mu: why the session cannot be reached any more
}

// ended is why the session cannot be reached any more, or nil.
func (a *attached) ended() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// lost remembers an error after which there is nothing to talk to.
func (a *attached) lost(err error) error {
	if remote.Gone(err) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.err == nil {
			a.err = err
		}
	}
	return err
}

func (a *attached) Events(ctx context.Context, after timeline.Seq) iter.Seq[timeline.Event] {
	var c cleaner
	return func(yield func(timeline.Event) bool) {
		_ = a.lost(a.Watch(ctx, after, func(e timeline.Event) bool { return yield(c.event(e)) }))
	}
}

// Info is the session's, for a terminal.
func (a *attached) Info() supervisor.Info {
	i := a.Session.Info()
	i.Prompt, i.Wait = plainText(i.Prompt), plainWait(i.Wait)
	return i
}

// plainWait is a wait that a terminal may be shown.
func plainWait(w *supervisor.Wait) *supervisor.Wait {
	if w == nil {
		return nil
	}
	plain := *w
	plain.Prompt, plain.Reader = plainText(w.Prompt), plainLine(w.Reader)
	return &plain
}

func (a *attached) Wait(ctx context.Context, o *supervisor.WaitOptions) (supervisor.Reply, error) {
	reply, err := a.Session.Wait(ctx, o)
	if err == nil && (reply.State == supervisor.StateIdle || reply.State == supervisor.StateEnded) {
		a.release()
	}
	reply.Prompt, reply.Wait = plainText(reply.Prompt), plainWait(reply.Wait)
	return reply, a.lost(err)
}

func (a *attached) Submit(ctx context.Context, code string) error {
	if err := a.take(ctx); err != nil {
		return err
	}
	_, err := a.Session.Submit(ctx, code)
	if err != nil {
		a.release()
	}
	return a.lost(err)
}

func (a *attached) take(ctx context.Context) error {
	if a.hold {
		return nil
	}
	err := a.Take(ctx, false)
	a.mu.Lock()
	a.taken = err == nil
	a.mu.Unlock()
	return a.lost(err)
}

func (a *attached) release() {
	a.mu.Lock()
	taken := a.taken
	a.taken = false
	a.mu.Unlock()
	if taken {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		_ = a.lost(a.Release(ctx))
	}
}

// releaseTime bounds giving the keyboard back.
const releaseTime = 5 * time.Second

func (a *attached) Answer(ctx context.Context, wait timeline.Seq, in supervisor.Input) error {
	_, err := a.Session.Answer(ctx, wait, in)
	return a.lost(err)
}

// Resize does nothing: the terminal of the session is not this one's alone.
func (a *attached) Resize(supervisor.Size) error { return nil }
