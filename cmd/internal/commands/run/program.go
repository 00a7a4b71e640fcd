package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/console"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A oneShotProgram is code to run once, without a user at a prompt.
type oneShotProgram struct {
	code  string
	stdin *os.File // read by its input(); nil means empty
}

// runProgram runs a program as the language's own command would: only its output goes to our
// streams, and its exit status becomes ours.
func runProgram(s cmdkit.Streams, lang languages.Language, spec workers.Spec, more localSessionOptions, p oneShotProgram) (int, error) {
	if spec.Notice != "" {
		fmt.Fprintf(s.Err, "repl: %s\n", spec.Notice)
	}
	if spec.Sandbox.Confines() { // no user is available to answer
		silent := *spec.Sandbox
		silent.AskUser = false
		spec.Sandbox = &silent
	}
	input := p.stdin
	if input == nil {
		empty, err := os.Open(os.DevNull)
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		defer empty.Close()
		input = empty
	}
	spec.Program = workers.Program{PipedOutput: !cmdkit.IsTerminal(s.Out)}
	if !cmdkit.IsTerminal(input) { // a terminal is not passed on: the program has another terminal, and could not read the keys of this one
		spec.Program.Stdin = input
	}
	return withSession(s, spec, more, func(ctx context.Context, session *supervisor.Session) (int, error) {
		r := &programRun{session: session, streams: s, stdin: newStdinReader(p.stdin), confined: spec.Sandbox.Confines()}
		defer r.stdin.close()
		return r.runToExit(ctx, lang, p.code)
	})
}

// interruptTimeout bounds the interrupt of a program that must end.
const interruptTimeout = 300 * time.Millisecond

// A programRun is the state of a running program and its session.
type programRun struct {
	session  *supervisor.Session
	streams  cmdkit.Streams
	stdin    *stdinReader
	confined bool
	cursor   timeline.Seq // of answerUntilIdle
}

// runToExit runs code from the start of the runtime to its end, and closes the session.
func (r *programRun) runToExit(ctx context.Context, lang languages.Language, code string) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	written := make(chan error, 1)
	wg.Go(func() {
		err := r.copyOutput()
		if err != nil {
			cancel(err)
		}
		written <- err
	})
	wg.Go(func() { r.handleCtrlC(ctx, cancel) })
	status, err := r.runInputs(ctx, lang, code)
	if ctx.Err() != nil {
		// Closing the session ends the program's input, which looks like a normal end of file. So the
		// program is interrupted first.
		bounded, stop := context.WithTimeout(context.Background(), interruptTimeout)
		_, _ = r.session.Interrupt(bounded, 0)
		stop()
	}
	if e := r.session.Close(context.Background()); err == nil { // this also ends the output
		err = e
	}
	unwritten := <-written
	cancel(nil)
	wg.Wait()
	if status, ok := cmdkit.SignalStatus(ctx); ok {
		return status, nil
	}
	if unwritten != nil {
		return cmdkit.StatusFailed, unwritten
	}
	return status, err
}

// runInputs runs code and then makes the runtime exit in its own way: threads are joined and exit
// handlers run.
func (r *programRun) runInputs(ctx context.Context, lang languages.Language, code string) (int, error) {
	reply, err := r.answerUntilIdle(ctx) // the start of the runtime
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	if reply.State == session.StateEnded {
		i, _ := r.session.Info(ctx)
		return cmdkit.StatusFailed, fmt.Errorf("%s ended before it was ready: %s", i.Executable, console.LastWorkerExit(reply).Reason)
	}
	var outcome timeline.Outcome
	inputs := []string{code}
	if lang.QuitInput != "" { // otherwise closing the session ends the runtime
		inputs = append(inputs, lang.QuitInput)
	}
	for _, input := range inputs {
		if _, err := r.session.SubmitMayExit(ctx, input); err != nil {
			return cmdkit.StatusFailed, err
		}
		if reply, err = r.answerUntilIdle(ctx); err != nil {
			return cmdkit.StatusFailed, err
		}
		if outcome == "" {
			outcome = reply.Outcome
		}
		if reply.State == session.StateEnded {
			break
		}
	}
	switch outcome {
	case timeline.OutcomeError:
		return cmdkit.StatusFailed, nil
	case timeline.OutcomeInterrupted:
		return 128 + int(syscall.SIGINT), nil
	}
	if reply.State != session.StateEnded {
		return cmdkit.StatusDone, nil
	}
	return cmdflags.WorkerExitStatus(console.LastWorkerExit(reply)), nil
}

// answerUntilIdle answers the input requests of the code until nothing runs.
func (r *programRun) answerUntilIdle(ctx context.Context) (session.Reply, error) {
	for {
		reply, err := r.session.Wait(ctx, 0, &session.WaitOptions{After: r.cursor, HeadBytes: 1, TailBytes: 1})
		if err != nil {
			return reply, err
		}
		r.cursor = reply.Next
		if reply.State != session.StateWaiting {
			return reply, nil
		}
		if p := reply.InputRequest.Permission; p != nil { // no user is available to answer
			if err := r.session.AnswerPermission(ctx, p.ID, false); err != nil && !errors.Is(err, session.ErrStale) {
				return reply, err
			}
			continue
		}
		if f := reply.InputRequest.Form; f != nil {
			fmt.Fprintf(r.streams.Err, "repl: declined, because no user is available to answer: %s\n", f.Question())
			if _, err := r.session.Answer(ctx, reply.InputRequest.ID, session.FormAnswer{Action: session.FormDecline}.Input()); err != nil && !errors.Is(err, session.ErrStale) {
				return reply, err
			}
			continue
		}
		input, err := r.stdin.next(ctx, reply.InputRequest)
		switch {
		case ctx.Err() != nil:
			return reply, ctx.Err() // an input request is reported whether or not ctx has ended
		case err != nil:
			continue // the request is over
		}
		if _, err := r.session.Answer(ctx, reply.InputRequest.ID, input); err != nil && !errors.Is(err, session.ErrStale) {
			return reply, err
		}
	}
}

// copyOutput copies the program's output until the session is closed or a write fails; that error
// ends the program. Only important messages of our own go to standard error.
func (r *programRun) copyOutput() error {
	images, line := 0, ""
	for e := range r.session.Events(context.Background(), 0) {
		switch b := e.Body.(type) {
		case timeline.Text:
			w := r.streams.Out
			if b.Stream == timeline.Stderr {
				w = r.streams.Err
			}
			if err := writeOutput(w, b.Data); err != nil {
				return err
			}
			line = lastLine(line, b.Data)
		case timeline.InputRequested: // not every runtime prints its prompt
			if r.stdin.savedState == nil || b.Kind == timeline.InputKindPermission || b.Kind == timeline.InputKindForm || strings.HasSuffix(line, b.Prompt) {
				continue
			}
			if err := writeOutput(r.streams.Out, []byte(b.Prompt)); err != nil {
				return err
			}
		case timeline.InputRequestEnded:
			r.stdin.endRequest(b.Request)
		case timeline.Notice:
			if r.confined && e.Turn == 0 { // a notice about the limits of the sandbox
				fmt.Fprintf(r.streams.Err, "repl: %s\n", b.Message)
			}
		case timeline.Limit:
			fmt.Fprintf(r.streams.Err, "repl: %s\n", b)
		case timeline.AccessDenied:
			fmt.Fprintf(r.streams.Err, "repl: %s: %s\n", b.RefusedBy(), b)
		case timeline.Display:
			if _, _, ok := b.ImageData(); ok {
				images++
			} else if text := b.Text(); text != "" {
				fmt.Fprintln(r.streams.Out, text)
			}
		case timeline.Gap:
			fmt.Fprintf(r.streams.Err, "repl: %d bytes of output were lost: standard output was too slow\n", b.Bytes)
		case timeline.WorkerExited:
			exited := b.Signal == "" && b.ExitCode >= 0 // our own exit status shows it
			if !b.Clean && e.Turn > 0 && !exited {
				fmt.Fprintf(r.streams.Err, "repl: %s\n", b.Reason)
			}
		}
	}
	if images > 0 {
		fmt.Fprintf(r.streams.Err, "repl: left out %s, because images are shown only at a terminal\n", text.Count(images, "image"))
	}
	return nil
}

func writeOutput(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return &cmdkit.SignalError{Number: int(syscall.SIGPIPE)}
	} else if err != nil {
		return fmt.Errorf("cannot write the program's output: %w", err)
	}
	return nil
}

// maxLineBytes bounds how much of a line of output is kept. It is longer than any prompt.
const maxLineBytes = 4096

// lastLine returns the end of the unfinished line, after b was written.
func lastLine(line string, b []byte) string {
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		line, b = "", b[i+1:]
	}
	line += string(b[max(0, len(b)-maxLineBytes):])
	return line[max(0, len(line)-maxLineBytes):]
}

// handleCtrlC interrupts the program at each Ctrl-C. After two interrupts without effect, a third
// Ctrl-C ends everything.
func (r *programRun) handleCtrlC(ctx context.Context, end context.CancelCauseFunc) {
	pressed := make(chan os.Signal, 1)
	cmdkit.NotifyUnlessIgnored(pressed, os.Interrupt)
	defer signal.Stop(pressed)
	for withstood := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-pressed:
		}
		result, err := r.session.Interrupt(ctx, 0)
		switch {
		case err != nil:
			return
		case result == session.InterruptPending && withstood < 2:
			withstood++
		case result == session.InterruptPending, result == session.InterruptNotRunning:
			end(&cmdkit.SignalError{Number: int(syscall.SIGINT)})
			return
		}
	}
}
