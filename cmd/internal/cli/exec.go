package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// newExecCommand runs code in a session of the daemon and creates the session if it does not exist.
func newExecCommand(f *flag.FlagSet) action {
	r := newDaemonCommand(f)
	var code codeFlag
	r.flags.Var(&code, "e", codeUsage)
	wait := r.flags.Duration("wait", 24*time.Hour, "`DURATION` how long to wait for the end or an input request")
	var lang string
	r.flags.Var(langFlag{&lang}, "lang", langUsage())
	var worker workerFlag
	r.flags.Var(&worker, "worker", workerUsage)
	var c runtimeFlags
	c.addInterpreterFlags(r.flags)
	dir := r.flags.String("dir", "", "`DIR` the working directory of a session that exec creates; default this directory, or the daemon's at a remote")
	idleTimeout := r.flags.Duration("session-idle-timeout", 0, "`DURATION` close a session that exec creates after this time without use; 0 is the daemon's setting")
	var confined sandboxFlags
	confined.addFlags(r.flags)
	var limits limitFlags
	limits.addFlags(r.flags)
	var with packageList
	r.flags.Var(&with, "with", withUsage)
	r.log.addFlags(f)
	return func(s streams, args []string) (int, error) {
		words, err := r.parseArgs(args, "SESSION")
		if err != nil {
			return statusUsage, err
		}
		if *wait < 0 || *wait > 24*time.Hour {
			return statusUsage, usageErrorf("--wait %s: use 0 to 24h", *wait)
		}
		if *idleTimeout < 0 || *idleTimeout > 0 && *idleTimeout < time.Second {
			return statusUsage, usageErrorf("--session-idle-timeout %s: use at least 1s, or 0 for the daemon's setting", *idleTimeout)
		}
		custom, isOwn, err := worker.singleWorker(lang)
		if err != nil {
			return statusUsage, err
		}
		if lang == "" && c.python == "" && c.r != "" {
			lang = "r"
		}
		var l languageInfo // its zero value for a language that only the daemon knows
		if !isOwn {
			l, _ = findLanguage(lang)
		}
		if err := c.checkExecutable(l); err != nil {
			return statusUsage, err
		}
		if err := r.resolveTarget(); err != nil {
			return statusUsage, err
		}
		r.startsDaemon = true
		c.dir, c.limits, c.isRemote = *dir, limits, r.isRemote()
		confined.isRemote = c.isRemote
		if err := c.resolvePaths(); err != nil {
			return statusUsage, err
		}
		sandbox, err := confined.buildSandbox(r.flags)
		if err != nil {
			return statusUsage, err
		}
		if !isFlagSet(r.flags, "e") {
			text, err := readInput(s.in)
			if err != nil {
				return statusFailed, fmt.Errorf("cannot read the code from standard input: %w", err)
			}
			code = append(code, text)
		}
		if !utf8.ValidString(code.String()) {
			return statusUsage, errNotUTF8
		}
		return r.runWithClient(func(ctx context.Context, conn *client.Conn) (int, error) {
			view := r.newTurnView(s, conn, *wait)
			p := client.StartParams{Session: words[0], Input: code.String(), Author: commandAuthor("exec"), WaitMS: view.firstWaitMS()}
			if sandbox != nil || limits.Limits != (workers.Limits{}) { // before any code runs in a session with a weaker one
				if now, err := conn.GetSession(ctx, words[0]); err == nil {
					if err := errors.Join(requireSandbox(sandbox, now), requireLimits(limits.Limits, now)); err != nil {
						return statusFailed, err
					}
				}
			}
			var reply session.Reply
			err := session.ErrClosed
			if len(with) == 0 { // an existing session must have them
				reply, err = conn.StartTurn(ctx, p)
			}
			if session.KindOf(err) == session.KindClosed {
				if c.dir == "" && !c.isRemote {
					if c.dir, err = workingDir(); err != nil {
						return statusFailed, err
					}
				}
				params := client.CreateParams{Name: words[0], Language: cmp.Or(custom.name, lang), Command: custom.command, Runtime: c.runtimeInDaemon(l), Dir: cmp.Or(c.dir, r.remoteDir), Packages: with, SessionIdleTimeoutMS: idleTimeout.Milliseconds(), Limits: limits.clientLimits()}
				setSandboxParams(sandbox, &params)
				if !c.isRemote {
					params.Env = loginEnv(sandbox)
				}
				err = createSession(ctx, s, r.daemonTarget, conn, params)
				if err == nil {
					view.deadline, p.WaitMS = time.Now().Add(*wait), view.firstWaitMS()
					reply, err = conn.StartTurn(ctx, p)
				}
			}
			if err != nil {
				return statusFailed, err
			}
			return view.showTurn(ctx, reply, 0)
		})
	}

}

// errNotUTF8 rejects input that a request to a daemon would not carry unchanged.
var errNotUTF8 = usageErrorf("the input is not UTF-8; convert it first, for example with iconv")

// turnEvents returns the events of a reply, without those before its turn: they are not output of
// the code.
func (v *turnView) turnEvents(reply session.Reply) []timeline.Event {
	events := reply.Events
	for len(events) > 0 && v.reportEarlier(events[0], reply) {
		events = events[1:]
	}
	return events
}

// reportEarlier reports events before the turn that matter to the caller: why the variables of
// earlier turns are gone, and notices of a worker's start. Notices of a new session were shown when
// it was created. It returns false for other events.
func (v *turnView) reportEarlier(e timeline.Event, reply session.Reply) bool {
	if !e.BetweenTurns && e.Turn == reply.Turn {
		return false
	}
	switch b := e.Body.(type) {
	case timeline.WorkerExited:
		if e.Generation >= reply.Generation {
			return false
		}
		fmt.Fprintf(v.streams.err, "repl: %s was restarted, and its variables are gone: %s\n", reply.Session, plainLine(b.FullReason()))
	case timeline.Notice:
		if reply.Generation > 1 {
			fmt.Fprintf(v.streams.err, "repl: %s\n", b.Message)
		}
	case timeline.WorkerStarted:
	default:
		return false
	}
	return true
}

// Exit statuses for code that has not finished, so that a script does not go on.
const (
	statusRunning = 4
	statusWaiting = 5
)

// replyStatus returns the exit status for a reply: an error of the code is a failure.
func replyStatus(reply session.Reply) int {
	switch reply.Outcome {
	case timeline.OutcomeError, timeline.OutcomeEnded:
		return statusFailed
	case timeline.OutcomeInterrupted:
		return 130
	case "": // no outcome yet
		if reply.InputRequest != nil {
			return statusWaiting
		}
		return statusRunning
	}
	return statusDone
}

// newInputCommand answers an input request of a session.
func newInputCommand(f *flag.FlagSet) action {
	r := newDaemonCommand(f)
	var lines codeFlag
	r.flags.Var(&lines, "e", "`TEXT` the answer, instead of a line from standard input; several -e are several lines")
	eof := r.flags.Bool("eof", false, "send end of file, after the text if there is any")
	wait := r.flags.Duration("wait", 24*time.Hour, "`DURATION` how long to wait for the end or an input request")
	return func(s streams, args []string) (int, error) {
		words, err := r.parseArgs(args, "SESSION")
		if err != nil {
			return statusUsage, err
		}
		if !isFlagSet(r.flags, "e") && !*eof {
			line, err := bufio.NewReader(io.LimitReader(s.in, session.MaxInputBytes+1)).ReadString('\n')
			if err != nil && (!errors.Is(err, io.EOF) || line == "") {
				return statusFailed, fmt.Errorf("cannot read the answer from standard input: %w", err)
			}
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
		text := lines.String()
		if !utf8.ValidString(text) {
			return statusUsage, errNotUTF8
		}
		if text != "" || isFlagSet(r.flags, "e") || !*eof {
			text += "\n"
		}
		return r.runWithClient(func(ctx context.Context, c *client.Conn) (int, error) {
			now, err := c.GetSession(ctx, words[0])
			if err != nil {
				return statusFailed, err
			}
			if now.InputRequest == nil {
				return statusFailed, fmt.Errorf("%s is not waiting for input: it is %s", words[0], now.State)
			}
			if now.InputRequest.Form != nil {
				return statusFailed, fmt.Errorf("%s asks the user; answer with repl attach %s", words[0], words[0])
			}
			view := r.newTurnView(s, c, *wait)
			reply, err := c.SendInput(ctx, client.InputParams{
				Session: words[0], InputRequest: now.InputRequest.ID, Input: text, EOF: *eof, Author: commandAuthor("input"),
				WaitMS: view.firstWaitMS(), After: now.LastSeq,
			})
			if err != nil {
				return statusFailed, err
			}
			return view.showTurn(ctx, reply, now.LastSeq)
		})
	}

}
