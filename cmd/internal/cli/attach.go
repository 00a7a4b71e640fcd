package cli

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"os"
	"strconv"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/terminal"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// attach lets a person watch a session of the daemon and take part in it.
func attach(f *flag.FlagSet) action {
	r := newDaemonCommand(f)
	watch := r.flags.Bool("watch", false, "only look; no terminal is needed")
	hold := r.flags.Bool("hold", false, "nobody else may write while you are there")
	// One person may be there twice, and each must see what the other one types.
	self := r.flags.String("as", commandAuthor(strconv.Itoa(os.Getpid())), "`YOU` the name that others see; default your user name and a number")
	var person atTerminal
	person.define(r.flags)
	r.log.define(f)
	return func(s streams, args []string) (int, error) {
		given, err := r.parse(args, "SESSION")
		if err == nil {
			err = person.check()
		}
		if err != nil {
			return statusUsage, err
		}
		if *watch && *hold {
			return statusUsage, misuse("use either --watch or --hold, not both")
		}
		if *self == "" || !client.IsAuthor(*self) {
			return statusUsage, misuse("--as %q: use a name of up to %d bytes, without control or invisible characters", *self, client.MaxAuthorBytes)
		}
		if *watch {
			return r.use(func(ctx context.Context, c *client.Client) (int, error) {
				return r.follow(ctx, s, c, given[0], 0, true, newEventPrinter())
			})
		}
		if !terminal.Usable() {
			return statusUsage, misuse("attach needs a terminal; --watch shows the session without one")
		}
		if err := r.log.spareTerminal(f); err != nil {
			return statusUsage, err
		}
		return r.use(func(ctx context.Context, c *client.Client) (int, error) {
			now, err := c.GetSession(ctx, given[0])
			if err != nil {
				return statusFailed, err
			}
			if err := r.checkOutside(now); err != nil {
				return statusFailed, err
			}
			if err := awaitPrepared(ctx, s.err, c.Session(now.Name), now); err != nil {
				return statusFailed, err
			}
			mine := r.link.Session(now.Name).WithAuthor(*self)
			if *hold {
				if err := mine.TakeWriteLock(ctx, true); err != nil {
					return statusFailed, err
				}
			}
			lang := languageOf(now.Language)
			o := person.options(lang, now.Dir)
			o.Self, o.Replay, o.GoesOn = *self, now.LastSeq, true
			status, err := terminal.Run(ctx, r.attached(ctx, mine.WithWriteLock(), now), o)
			if err != nil {
				return statusFailed, err
			}
			fmt.Fprintf(s.err, "[detached: %s goes on; repl close %s%s ends it]\n", now.Name, now.Name, r.again())
			return status, nil
		})
	}

}

// checkOutside refuses to show a session at its own terminal: that would be output of the session,
// to be shown again.
func (r *daemonCommand) checkOutside(now session.Info) error {
	if r.isAway() || !isWithin(now.PID) {
		return nil
	}
	return misuse("this runs in session %s, which cannot show itself: use another terminal", now.Name)
}

// attached is a session of the daemon for the terminal. Text of others is cleaned of
// everything that would act on the terminal.
type attached struct {
	*client.Session
	cuts  <-chan client.Outage // nil where the link does not break
	place string
	told  func(timeline.Event) timeline.Event // how events are told here; nil: as they are

	from  screenful
	above string // said above the screenful; "" when it has everything
}

// attached is a session of the daemon for the terminal; now is what it is now.
func (r *daemonCommand) attached(ctx context.Context, s *client.Session, now session.Info) attached {
	a := attached{Session: s, cuts: cutsOf(r.link), place: r.link.RemoteName()}
	if r.isAway() {
		a.told = lossTold(now, r.again())
	}
	if a.from = lastScreen(ctx, s, terminal.WindowSize()); a.from.after > 0 {
		a.above = fmt.Sprintf("what came before is not shown: repl events %s%s has all of it", now.Name, r.again())
	}
	return a
}

func (a attached) Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error] {
	var c cleaner
	return func(yield func(timeline.Event, error) bool) {
		if after < a.from.after {
			after = a.from.after
			if !yield(timeline.Event{Body: timeline.Notice{Message: a.above}}, nil) {
				return
			}
		}
		events := func(ctx context.Context) iter.Seq2[timeline.Event, error] { return a.Session.Events(ctx, after) }
		for e, err := range withCuts(ctx, a.cuts, a.place, events) {
			e = a.from.of(e)
			if a.told != nil {
				e = a.told(e)
			}
			if !yield(c.event(e), err) {
				return
			}
		}
	}
}

// Info returns the session's info in a form for a terminal.
func (a attached) Info(ctx context.Context) (session.Info, error) {
	i, err := a.Session.Info(ctx)
	i.Prompt, i.Continuation, i.InputRequest = plainText(i.Prompt), plainText(i.Continuation), plainWait(i.InputRequest)
	return i, err
}

// plainWait returns a wait with clean texts.
func plainWait(w *session.InputRequest) *session.InputRequest {
	if w == nil {
		return nil
	}
	plain := *w
	plain.Prompt, plain.Reader = plainText(w.Prompt), plainLine(w.Reader) // a permission's question quotes what could act
	return &plain
}

func (a attached) Wait(ctx context.Context, turn uint64, o *session.WaitOptions) (session.Reply, error) {
	reply, err := a.Session.Wait(ctx, turn, o)
	reply.Prompt, reply.InputRequest = plainText(reply.Prompt), plainWait(reply.InputRequest)
	return reply, err
}
