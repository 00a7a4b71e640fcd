package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/timeline"
)

// statusUnreachable is the exit status when no daemon answers.
const statusUnreachable = 3

// A daemonCommand is what the commands that speak with a daemon have in common.
type daemonCommand struct {
	flags  *flag.FlagSet
	socket string
	json   bool
}

func newDaemonCommand(name string) *daemonCommand {
	r := &daemonCommand{flags: newFlags(name)}
	r.flags.StringVar(&r.socket, "socket", client.DefaultSocket(os.Getenv), "")
	r.flags.BoolVar(&r.json, "json", false, "")
	return r
}

// parse parses flags before and behind the arguments, of which there must be as
// many as there are names.
func (r *daemonCommand) parse(args []string, names ...string) ([]string, error) {
	given, err := parseAnywhere(r.flags, args)
	switch {
	case err != nil:
		return nil, err
	case len(given) < len(names):
		return nil, misuse("repl %s wants %s (see repl help)", r.flags.Name(), strings.Join(names, " "))
	case len(given) > len(names):
		return nil, misuse("%q is one argument too many for repl %s", given[len(names)], r.flags.Name())
	}
	return given, nil
}

// use connects and calls do with a context that ends with the signals.
func (r *daemonCommand) use(do func(ctx context.Context, c *client.Client) (int, error)) (int, error) {
	ctx, stop := catchSignals(os.Interrupt)
	defer stop()
	c, err := client.Dial(ctx, r.socket)
	if err != nil {
		return statusUnreachable, err
	}
	defer c.Close()
	status, err := do(ctx, c)
	if signalled, ok := statusOf(ctx); ok {
		return signalled, nil
	}
	if client.IsKind(err, client.KindUnreachable) {
		status = statusUnreachable
	}
	return status, err
}

// commandAuthor is how a command's turns are recorded: it may be run by a script
// while the person that it belongs to looks on.
func commandAuthor(command string) string { return author() + " (" + command + ")" }

// author is how this person's turns are recorded.
func author() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

// listSessions shows the daemon's sessions.
func listSessions(s streams, args []string) (int, error) {
	r := newDaemonCommand("list")
	if _, err := r.parse(args); err != nil {
		return statusUsage, err
	}
	return r.use(func(ctx context.Context, c *client.Client) (int, error) {
		sessions, err := c.List(ctx)
		if err != nil {
			return statusFailed, err
		}
		if r.json {
			return statusDone, printJSON(s.out, sessions)
		}
		if len(sessions) == 0 {
			fmt.Fprintln(s.err, "no session is open")
			return statusDone, nil
		}
		w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tLANGUAGE\tSTATE\tGENERATION\tTURN\tAGE\tMEMORY\tWATCHERS\tKEYBOARD")
		for _, one := range sessions {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%d\t%s\n", one.Name, one.Language, stateOf(one), one.Generation, one.Turn,
				time.Since(one.Opened).Round(time.Second), megabytes(one.MemoryBytes), one.Watchers, one.Writer)
		}
		return statusDone, w.Flush()
	})
}

// stateOf is a session's state with what there is to know about it.
func stateOf(s client.Session) string {
	switch {
	case s.Provisional:
		return "being prepared"
	case s.Failure != "":
		return "could not be prepared"
	case s.Wait != nil:
		return fmt.Sprintf("waiting: %q", s.Wait.Prompt)
	case s.RunningMS > 0:
		return fmt.Sprintf("%s %s", s.State, (time.Duration(s.RunningMS) * time.Millisecond).Round(time.Second))
	}
	return s.State
}

func megabytes(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// execIn runs code in a session of the daemon's, which is made when it is not there.
func execIn(s streams, args []string) (int, error) {
	r := newDaemonCommand("exec")
	code := r.flags.String("e", "", "")
	wait := r.flags.Duration("wait", 24*time.Hour, "")
	lang := r.flags.String("lang", "", "")
	dir := r.flags.String("dir", "", "")
	var with wanted
	r.flags.Var(&with, "with", "")
	given, err := r.parse(args, "NAME")
	if err != nil {
		return statusUsage, err
	}
	if *wait < 0 || *wait > 24*time.Hour {
		return statusUsage, misuse("--wait %s: want 0 to 24h", *wait)
	}
	c := choice{dir: *dir}
	if err := c.settleDir(); err != nil {
		return statusUsage, err
	}
	if !isSet(r.flags, "e") {
		text, err := io.ReadAll(s.in)
		if err != nil {
			return statusFailed, fmt.Errorf("cannot read the code from standard input: %w", err)
		}
		*code = string(text)
	}
	return r.use(func(ctx context.Context, conn *client.Client) (int, error) {
		p := client.StartParams{Session: given[0], Input: *code, Author: commandAuthor("exec"), WaitMS: wait.Milliseconds()}
		var reply client.Reply
		err := error(&client.Error{Kind: client.KindNoSession})
		if len(with) == 0 { // else the session must have them
			reply, err = conn.Start(ctx, p)
		}
		if client.IsKind(err, client.KindNoSession) {
			var created func()
			created, err = create(ctx, s, conn, client.CreateParams{Name: given[0], Language: *lang, Dir: c.dir, With: with})
			if err == nil {
				reply, err = conn.Start(ctx, p)
			}
			created()
		}
		if err != nil {
			return statusFailed, err
		}
		return showReply(s, r, reply)
	})
}

// showReply prints what a turn printed, and says on standard error what else
// there is to know.
func showReply(s streams, r *daemonCommand, reply client.Reply) (int, error) {
	if r.json {
		return replyStatus(reply), printJSON(s.out, reply)
	}
	for _, p := range reply.Render(&timeline.RenderOptions{Self: commandAuthor(r.flags.Name())}).Parts {
		if p.Image != nil {
			fmt.Fprintf(s.err, "repl: a picture of %d bytes (%s)\n", len(p.Image.Data), p.Image.MIME)
			continue
		}
		if _, err := io.WriteString(s.out, p.Text); err != nil {
			return statusFailed, err
		}
	}
	switch {
	case reply.Wait != nil:
		fmt.Fprintf(s.err, "repl: it waits for input: %q (answer with repl input %s)\n", reply.Wait.Prompt, reply.Session)
	case reply.Outcome == "":
		fmt.Fprintf(s.err, "repl: it goes on: repl events %s --follow shows what comes, repl interrupt %s stops it\n", reply.Session, reply.Session)
	}
	return replyStatus(reply), nil
}

// replyStatus is the exit status for a reply: an error of the code's is a failure.
func replyStatus(reply client.Reply) int {
	switch reply.Outcome {
	case "error", "ended":
		return statusFailed
	case "interrupted":
		return 130
	}
	return statusDone
}

// inputTo answers what a session waits for.
func inputTo(s streams, args []string) (int, error) {
	r := newDaemonCommand("input")
	text := r.flags.String("e", "", "")
	eof := r.flags.Bool("eof", false, "")
	wait := r.flags.Duration("wait", 24*time.Hour, "")
	given, err := r.parse(args, "NAME")
	if err != nil {
		return statusUsage, err
	}
	if !isSet(r.flags, "e") && !*eof {
		line, err := bufio.NewReader(s.in).ReadString('\n')
		if err != nil && (!errors.Is(err, io.EOF) || line == "") {
			return statusFailed, fmt.Errorf("cannot read the answer from standard input: %w", err)
		}
		*text = strings.TrimSuffix(line, "\n")
	}
	if *text != "" || isSet(r.flags, "e") || !*eof {
		*text += "\n"
	}
	return r.use(func(ctx context.Context, c *client.Client) (int, error) {
		session, err := c.Get(ctx, given[0])
		if err != nil {
			return statusFailed, err
		}
		if session.Wait == nil {
			return statusFailed, fmt.Errorf("%s does not wait for input: it is %s", given[0], session.State)
		}
		reply, err := c.Input(ctx, client.InputParams{
			Session: given[0], Wait: session.Wait.ID, Input: *text, EOF: *eof, Author: commandAuthor("input"),
			WaitMS: wait.Milliseconds(), After: session.LastSeq,
		})
		if err != nil {
			return statusFailed, err
		}
		return showReply(s, r, reply)
	})
}

// isSet reports whether a flag was given.
func isSet(f *flag.FlagSet, name string) bool {
	given := false
	f.Visit(func(one *flag.Flag) { given = given || one.Name == name })
	return given
}

// showEvents prints a session's events as JSON lines, or its text.
func showEvents(s streams, args []string) (int, error) {
	r := newDaemonCommand("events")
	after := r.flags.Uint64("after", 0, "")
	live := r.flags.Bool("follow", false, "")
	given, err := r.parse(args, "NAME")
	if err != nil {
		return statusUsage, err
	}
	return r.use(func(ctx context.Context, c *client.Client) (int, error) {
		show := printEvent
		if r.json {
			show = func(w io.Writer, e timeline.Event) error { return json.NewEncoder(w).Encode(client.FromTimeline(e)) }
		}
		return follow(ctx, s, c, given[0], timeline.Seq(*after), *live, show)
	})
}

// An eventPrinter shows an event.
type eventPrinter = func(w io.Writer, e timeline.Event) error

// printEvent prints an event for a person: text as it is, the rest as a line.
func printEvent(w io.Writer, e timeline.Event) error {
	var err error
	switch b := e.Body.(type) {
	case timeline.Text:
		_, err = w.Write(b.Data)
	case timeline.TurnStarted:
		by := ""
		if b.Author != "" {
			by = " by " + b.Author
		}
		_, err = fmt.Fprintf(w, "[turn %d%s]\n%s\n", e.Turn, by, strings.TrimRight(string(b.Input), "\n"))
	case timeline.InputLine:
		text := b.Text
		if b.Secret {
			text = "(a secret)"
		}
		_, err = fmt.Fprintf(w, "%s%s\n", b.Prompt, text)
	case timeline.TurnEnded:
		if b.Outcome != "ok" {
			_, err = fmt.Fprintf(w, "[turn %d: %s]\n", e.Turn, b.Outcome)
		}
	case timeline.Image:
		_, err = fmt.Fprintf(w, "[a picture, %d bytes]\n", len(b.Data))
	case timeline.Notice:
		_, err = fmt.Fprintf(w, "[%s]\n", b.Message)
	case timeline.Wait:
		_, err = fmt.Fprintf(w, "[it waits for input: %q]\n", b.Prompt)
	case timeline.Gap:
		_, err = fmt.Fprintf(w, "[%d bytes are lost here]\n", b.Bytes)
	case timeline.GenerationEnded:
		_, err = fmt.Fprintf(w, "[it ended: %s]\n", b.Reason)
	}
	return err
}

// interruptIn interrupts what a session runs now.
func interruptIn(s streams, args []string) (int, error) {
	r := newDaemonCommand("interrupt")
	turn := r.flags.Uint64("turn", 0, "")
	given, err := r.parse(args, "NAME")
	if err != nil {
		return statusUsage, err
	}
	return r.use(func(ctx context.Context, c *client.Client) (int, error) {
		if *turn == 0 {
			session, err := c.Get(ctx, given[0])
			if err != nil {
				return statusFailed, err
			}
			if session.State != "running" && session.State != "waiting" {
				fmt.Fprintf(s.err, "repl: nothing runs: %s is %s\n", session.Name, session.State)
				return statusDone, nil
			}
			*turn = session.Turn
		}
		result, err := c.Interrupt(ctx, client.InterruptParams{Session: given[0], Turn: *turn, Author: author()})
		if err != nil {
			return statusFailed, err
		}
		if result.Result == "pending" {
			return statusFailed, errors.New("it goes on: a second interrupt is harder to ignore, and repl reset always works")
		}
		return statusDone, nil
	})
}

// resetIn restarts a session's runtime.
func resetIn(_ streams, args []string) (int, error) {
	return onSession("reset", args, func(ctx context.Context, c *client.Client, name string) error {
		_, err := c.Reset(ctx, name)
		return err
	})
}

// closeIn ends a session.
func closeIn(_ streams, args []string) (int, error) {
	return onSession("close", args, func(ctx context.Context, c *client.Client, name string) error {
		return c.CloseSession(ctx, name)
	})
}

func onSession(command string, args []string, do func(context.Context, *client.Client, string) error) (int, error) {
	r := newDaemonCommand(command)
	given, err := r.parse(args, "NAME")
	if err != nil {
		return statusUsage, err
	}
	return r.use(func(ctx context.Context, c *client.Client) (int, error) {
		if err := do(ctx, c, given[0]); err != nil {
			return statusFailed, err
		}
		return statusDone, nil
	})
}

// ctl sends a line to the daemon's control plane and prints the answer.
func ctl(s streams, args []string) (int, error) {
	r := newDaemonCommand("ctl")
	given, err := r.parse(args, "status|pause|resume|drain|stop")
	if err != nil {
		return statusUsage, err
	}
	conn, err := net.DialTimeout("unix", r.socket, 5*time.Second)
	if err != nil {
		return statusUnreachable, fmt.Errorf("no daemon answers at %s", r.socket)
	}
	defer conn.Close()
	line, err := json.Marshal(map[string]string{"type": given[0]})
	if err != nil {
		return statusFailed, err
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return statusFailed, err
	}
	answer, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return statusFailed, fmt.Errorf("the daemon did not answer: %w", err)
	}
	var reply struct {
		OK    bool           `json:"ok"`
		Error string         `json:"error"`
		Data  map[string]any `json:"data"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return statusFailed, err
	}
	if !reply.OK {
		return statusFailed, errors.New(reply.Error)
	}
	if given[0] == "status" || r.json {
		return statusDone, printJSON(s.out, reply.Data)
	}
	return statusDone, nil
}
