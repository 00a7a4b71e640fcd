package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/console/ttymode"
	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A conversation runs the dialogue between the user and one session.
type conversation struct {
	session    session.Session
	options    Options
	editor     *lineEditor
	printer    *printer
	interrupts <-chan struct{} // Ctrl-C, while no line is edited

	ahead   typeAhead
	greeted bool
	cursor  timeline.Seq // everything up to it is on the screen
	prompt  string       // the last prompt of the runtime
}

// run alternates between waiting for the session and asking the user.
func (c *conversation) run(ctx context.Context) (status int, err error) {
	for {
		reply, err := c.waitForTurn(ctx)
		if err != nil || reply.State == session.StateStopping || !c.printer.waitUntilShown(ctx, reply.Next) {
			return 0, nil // another client has ended the session
		}
		c.cursor = reply.Next
		if reply.State == session.StateEnded {
			end := LastWorkerExit(reply)
			switch {
			case c.printer.exiting.Load():
				return c.options.ExitStatus(end), nil
			case end.Clean && (crashedInTurn(reply) || end.Reason == "closed"):
				return c.options.ExitStatus(end), nil
			case !c.greeted && !c.options.SessionStays:
				return 0, fmt.Errorf("%s ended before it was ready: %s", c.sessionInfo(ctx).Executable, end.Reason)
			}
		}
		c.printGreeting(ctx)
		switch {
		case c.printer.exiting.Load() && reply.State != session.StateWaiting: // the runtime refuses to exit
			return 0, nil
		case reply.State != session.StateWaiting:
			err = c.submitInput(ctx, reply.Prompt)
		case reply.InputRequest.Permission != nil:
			err = c.askPermission(ctx, *reply.InputRequest)
		case reply.InputRequest.Form != nil:
			err = c.answerForm(ctx, *reply.InputRequest)
		default:
			err = c.answerRequest(ctx, *reply.InputRequest)
		}
		switch {
		case ctx.Err() != nil:
			c.editor.startNewLine()
			return 0, nil
		case errors.Is(err, io.EOF):
			if c.options.QuitInput == "" || c.options.SessionStays || reply.State == session.StateEnded {
				return 0, nil
			}
			c.printer.exiting.Store(true)
			if _, err := c.session.SubmitMayExit(ctx, c.options.QuitInput); err != nil {
				return 0, nil
			}
		case err != nil:
			c.printer.printNotice(err.Error())
		}
	}
}

// waitForTurn waits until the active turn has ended or asks for input. Lines that are typed in the
// meantime may be for its programs.
func (c *conversation) waitForTurn(ctx context.Context) (reply session.Reply, err error) {
	over, stop := context.WithCancel(ctx)
	var waiter sync.WaitGroup
	waiter.Go(func() {
		defer stop()
		reply, err = c.session.Wait(ctx, 0, &session.WaitOptions{After: c.cursor, HeadBytes: 1, TailBytes: 1})
	})
	c.ahead.handleLines(ctx, over)
	waiter.Wait()
	return reply, err
}

// crashedInTurn reports whether a turn in the reply ended because its runtime ended.
func crashedInTurn(reply session.Reply) bool {
	return slices.ContainsFunc(reply.Events, func(e timeline.Event) bool {
		end, ok := e.Body.(timeline.TurnEnded)
		return ok && end.Outcome == timeline.OutcomeEnded
	})
}

// LastWorkerExit returns the last worker exit in the reply, or the zero value.
func LastWorkerExit(reply session.Reply) timeline.WorkerExited {
	for _, e := range slices.Backward(reply.Events) {
		if end, ok := e.Body.(timeline.WorkerExited); ok {
			return end
		}
	}
	return timeline.WorkerExited{}
}

func (c *conversation) printGreeting(ctx context.Context) {
	if c.greeted {
		return
	}
	c.greeted = true
	i := c.sessionInfo(ctx)
	end := "ends"
	if c.options.SessionStays {
		end = `leaves, and Ctrl-\ at any time`
	}
	if i.Notice != "" {
		c.printer.printNotice(i.Notice)
	}
	c.editor.startNewLine()
	why := strings.TrimSuffix(i.ExecutableSource, " "+i.Executable) // "named" needs no path: the line prints it already
	_, _ = fmt.Fprintf(c.editor, "%s, %s (%s)\nTab completes, Ctrl-C interrupts, Ctrl-D %s.\n",
		strings.TrimSpace(languageTitle(i.Language)+" "+i.RuntimeVersion), i.Executable, why, end)
}

// sessionInfo describes the session. An unreachable session counts as ended.
func (c *conversation) sessionInfo(ctx context.Context) session.Info {
	i, err := c.session.Info(ctx)
	if err != nil {
		return session.Info{State: session.StateEnded}
	}
	return i
}

// languageTitle returns the display name of a language: Python for "python".
func languageTitle(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(first)) + name[size:]
}

// fallbackPrompt is shown if the runtime ended before any client attached.
const fallbackPrompt = "> "

// submitInput reads one complete input and submits it. io.EOF means that the user wants to quit.
func (c *conversation) submitInput(ctx context.Context, prompt string) error {
	if prompt != "" {
		c.prompt = prompt // an ended runtime has no prompt
	}
	c.prompt = cmp.Or(c.prompt, fallbackPrompt)
	code, err := c.readInput(ctx)
	switch {
	case errors.Is(err, errCancelled):
		return nil
	case err != nil:
		return err
	}
	if c.options.TranslateAlias != nil {
		if code, err = c.options.TranslateAlias(code); err != nil {
			return err
		}
	}
	_, err = c.session.SubmitMayExit(ctx, code)
	return err
}

// isOtherAuthorRunning reports whether another author's code runs while the user edits.
func (c *conversation) isOtherAuthorRunning(ctx context.Context) bool {
	state := c.sessionInfo(ctx).State
	return state == session.StateRunning || state == session.StateWaiting
}

// readInput reads one complete input. It returns errCancelled if another author's code requests input.
func (c *conversation) readInput(ctx context.Context) (string, error) {
	for {
		c.editor.startNewLine()
		code, err := c.editor.editCode(lineedit.Options{
			Prompt:       c.prompt,
			Continuation: cmp.Or(c.sessionInfo(ctx).Continuation, c.options.Continuation),
			IsComplete:   func(text string) bool { return c.isCompleteInput(ctx, text) },
			Complete:     func(text string, cursor int) lineedit.CompletionList { return c.completeText(ctx, text, cursor) },
		})
		switch {
		case errors.Is(err, errInterrupted) && !c.editor.lastNotEmpty && c.isOtherAuthorRunning(ctx):
			c.interruptTurn(ctx)
			return "", errCancelled
		case errors.Is(err, errInterrupted):
			continue
		case err != nil:
			return "", err
		case code != "":
			return code, nil
		}
	}
}

// maxParseAttempts bounds how often the runtime is asked. Each attempt times out after a fraction
// of a second.
const maxParseAttempts = 4

// isCompleteInput asks the runtime whether code is a complete input. It starts a new runtime if the
// last one has ended.
func (c *conversation) isCompleteInput(ctx context.Context, code string) bool {
	if c.sessionInfo(ctx).State == session.StateEnded {
		if c.session.Reset(ctx) != nil {
			return true // submitting it fails in the same way and reports the error
		}
		_, _ = c.session.Wait(ctx, 0, &session.WaitOptions{After: c.cursor})
	}
	status, err := c.session.Parse(ctx, code)
	// A busy machine may not answer in time, and an incomplete input must not be run.
	for range maxParseAttempts - 1 {
		if err != nil || status != session.ParseUnknown {
			break
		}
		status, err = c.session.Parse(ctx, code)
	}
	return err != nil || status != session.ParseIncomplete
}

// completeText asks the runtime for completions at the cursor, and for the signature inside a call.
func (c *conversation) completeText(ctx context.Context, text string, cursor int) lineedit.CompletionList {
	found, err := c.session.Complete(ctx, text, cursor)
	if err != nil && session.KindOf(err) != session.KindNoAnswer { // a hint may still be available
		return lineedit.CompletionList{}
	}
	completion := lineedit.CompletionList{Start: found.Start, Matches: found.Matches}
	if before := strings.TrimRight(text[:cursor], " \t\n"); strings.HasSuffix(before, "(") || strings.HasSuffix(before, ",") {
		if about, err := c.session.Inspect(ctx, before, len(before)); err == nil {
			completion.Hint = signatureHint(about.Data["text/plain"])
		}
	}
	return completion
}

// signatureHint returns the signature and the first line of text from a function's description, or
// "" if the description has no signature.
func signatureHint(description string) string {
	facts, doc, _ := strings.Cut(description, "\n\n")
	for fact := range strings.Lines(facts) {
		if signature, ok := strings.CutPrefix(fact, "Signature: "); ok {
			first, _, _ := strings.Cut(doc, "\n")
			return strings.TrimRight(strings.TrimSpace(signature)+"\n"+first, "\n")
		}
	}
	return ""
}

// answerRequest reads the answer to an input request. The question is output and already on the
// screen.
func (c *conversation) answerRequest(ctx context.Context, w session.InputRequest) error {
	prompt := w.Prompt
	if c.editor.output.endsWith(prompt) {
		prompt = ""
	}
	return c.readAnswer(ctx, w, prompt, func(line string, end bool) (bool, error) {
		input := session.Input{Data: []byte(line + "\n")}
		if end {
			input = session.Input{EOF: true}
		}
		_, err := c.session.Answer(ctx, w.ID, input)
		return true, err
	})
}

// readAnswer reads lines for an input request until take reports that it has enough. end means that
// the user typed the end of input. Ctrl-C interrupts the turn instead.
func (c *conversation) readAnswer(ctx context.Context, w session.InputRequest, prompt string, take func(line string, end bool) (enough bool, err error)) error {
	for {
		line, err := c.editor.editAnswer(w, prompt)
		end := errors.Is(err, io.EOF)
		switch {
		case ctx.Err() != nil, errors.Is(err, errCancelled):
			return nil
		case errors.Is(err, errInterrupted) && w.Terminal && c.interruptJob():
			return nil
		case errors.Is(err, errInterrupted):
			_, err = c.session.Interrupt(ctx, w.Turn)
			return err
		case err != nil && !end:
			return err
		}
		switch enough, err := take(line, end); {
		case errors.Is(err, session.ErrStale):
			return nil // the request ended at the same moment
		case enough || err != nil:
			return err
		}
		c.editor.startNewLine()
	}
}

// handleSignals interrupts running code on Ctrl-C, and follows the size of the window.
func (c *conversation) handleSignals(ctx context.Context) {
	sent, window := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(sent, os.Interrupt) // only other processes send this signal: in raw mode the terminal does not
	defer signal.Stop(sent)
	signal.Notify(window, windowChanged)
	defer signal.Stop(window)
	continued := make(chan os.Signal, 1)
	ttymode.NotifyContinued(continued)
	defer signal.Stop(continued)
	for {
		select {
		case <-ctx.Done():
			return
		case <-window:
			c.editor.handleResize()
			_ = c.session.Resize(ctx, WindowSize())
		case <-continued:
			c.editor.resumeTerminal()
		case <-sent:
			c.interruptTurn(ctx)
		case <-c.interrupts:
			_, _ = io.WriteString(c.editor, "^C")
			if !c.interruptJob() {
				c.interruptTurn(ctx)
			}
		}
	}
}

// interruptJob interrupts the job of a shell, if one is running. The shell itself continues.
func (c *conversation) interruptJob() bool {
	return c.options.Programs != nil && c.options.Programs.InterruptJob()
}

func (c *conversation) interruptTurn(ctx context.Context) {
	result, err := c.session.Interrupt(ctx, 0)
	if err == nil && result == session.InterruptPending {
		c.printer.printNotice(`still running; press Ctrl-C again to force it, Ctrl-\ to quit`)
	}
}
