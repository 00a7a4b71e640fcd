package diagnose

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

// A runtimeCheck holds the results of doctor for one language.
type runtimeCheck struct {
	Language   string `json:"language"`
	display    string
	dialect    conformance.Dialect // used for the tests of the language
	Executable string              `json:"executable,omitempty"`
	Runtime    string              `json:"runtime_version,omitempty"`
	Why        string              `json:"why,omitempty"`
	Missing    string              `json:"missing,omitempty"` // why no runtime was found
	Candidates []candidate         `json:"candidates"`
	Probes     []checkResult       `json:"probes"`
	Notices    []string            `json:"notices,omitempty"` // notices of the session
}

// A candidate is a place where the search looked for a runtime.
type candidate struct {
	Source    string `json:"source"`
	Path      string `json:"path,omitempty"`
	Version   string `json:"version,omitempty"`
	Chosen    bool   `json:"chosen"`
	Note      string `json:"note,omitempty"` // why it was skipped
	Requested bool   `json:"requested,omitempty"`
}

// newRuntimeCheck finds a language's runtime and tests it.
func newRuntimeCheck(ctx context.Context, c cmdflags.RuntimeFlags, lang languages.Language, policy probePolicy) *runtimeCheck {
	spec, err := c.LanguageSpec(lang)
	d := &runtimeCheck{
		Language:   lang.Name,
		display:    lang.Display,
		Executable: spec.Path,
		Why:        spec.PathSource,
	}
	for _, searched := range lang.Candidates(c.InterpreterFor(lang), c.Dir) {
		d.Candidates = append(d.Candidates, candidate(searched))
	}
	if spec.Notice != "" {
		d.Notices = append(d.Notices, spec.Notice)
	}
	var dialectErr error
	if d.dialect, dialectErr = lang.Dialect(); dialectErr != nil {
		d.Notices = append(d.Notices, "fewer checks are possible: "+cmdkit.ErrorLine(dialectErr))
	}
	clean := func() {}
	if err == nil {
		clean, err = policy.restrictSpec(&spec, lang, c)
	}
	if err != nil {
		d.Missing = cmdkit.ErrorLine(err)
	} else {
		defer clean()
		d.probeSession(ctx, spec)
	}
	return d
}

// codeForTwo returns code that prints a 2, or "" if none is known.
func (r *runtimeCheck) codeForTwo() string {
	if r.dialect.Print == nil {
		return ""
	}
	return r.dialect.Print("2")
}

// printCheck prints the results for a terminal.
func (r *runtimeCheck) printCheck(p *cmdkit.LineBuilder) {
	if r.Missing != "" {
		p.AddLine("%s: not found: %s", r.display, r.Missing)
	} else {
		p.AddLine("%s: %s %s", r.display, r.Executable, r.Runtime)
		p.AddLine("  because: %s", r.Why)
	}
	if len(r.Candidates) > 0 {
		p.AddLine("  searched:")
	}
	for _, c := range r.Candidates {
		mark, tail := "-", c.Note
		if c.Chosen {
			mark, tail = "*", c.Path
		}
		p.AddLine("  %s %s: %s", mark, c.Source, tail)
	}
	addResults(p, r.Probes)
	for _, n := range r.Notices {
		p.AddLine("  note    %s", n)
	}
}

// probeSession tests the runtime in a new session.
func (r *runtimeCheck) probeSession(ctx context.Context, spec workers.Spec) {
	sup, err := supervisor.New(nil)
	if err != nil {
		r.Probes = []checkResult{{Name: "the runtime starts", Detail: cmdkit.ErrorLine(err)}}
		return
	}
	defer sup.Close()
	started := time.Now()
	opened, err := sup.Open(ctx, "doctor", spec)
	if err == nil {
		err = opened.WaitPrepared(ctx)
	}
	if err != nil {
		r.Probes = append(r.Probes, checkResult{Name: "the runtime starts", Detail: cmdkit.ErrorLine(err)})
		return
	}
	p := checkedSession{opened, r.dialect}
	for _, probe := range []struct {
		name  string
		try   func(context.Context) (string, error)
		known bool // the code for this check is known
	}{
		{"the runtime starts", func(ctx context.Context) (string, error) { return p.waitReady(ctx, started) }, true},
		{"a turn ends when the code is done", p.measureTurns, r.dialect.Whole != ""},
		{"an input request is answered", p.askQuestion, r.dialect.Ask != nil},
		{"an interrupt reaches a loop", p.interruptLoop, r.dialect.Loop != ""},
		{"a program that reads the terminal is detected", p.detectReader, r.dialect.Shell != nil},
		{"all processes exit", p.closeSession, true},
	} {
		if !probe.known {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, cmdflags.ProbeTimeout)
		detail, err := probe.try(ctx)
		cancel()
		if err != nil {
			detail = cmdkit.ErrorLine(err)
		}
		r.Probes = append(r.Probes, checkResult{Name: probe.name, OK: err == nil, Detail: detail})
		if i, _ := p.session.Info(ctx); i.RuntimeVersion != "" {
			r.Runtime = i.RuntimeVersion
		}
		if err != nil && p.session.State() != session.StateIdle {
			break // the others would fail for the same reason
		}
	}
	for _, e := range p.session.Log().EventsSince(0) {
		if n, ok := e.Body.(timeline.Notice); ok {
			r.Notices = append(r.Notices, n.Message)
		}
	}
}

// A checkedSession is the session on which the checks run.
type checkedSession struct {
	session *supervisor.Session
	dialect conformance.Dialect // of its language
}

func (s checkedSession) waitReady(ctx context.Context, started time.Time) (string, error) {
	reply, err := s.session.Wait(ctx, 0, nil)
	switch {
	case err != nil:
		return "", fmt.Errorf("it is not ready after %s", cmdflags.ProbeTimeout)
	case reply.State == session.StateWaiting:
		return "", fmt.Errorf("its start-up asks for input: %q", reply.InputRequest.Prompt)
	case reply.State != session.StateIdle:
		return "", fmt.Errorf("it ended: %s", exitDescription(reply))
	}
	return fmt.Sprintf("ready after %s", formatMilliseconds(time.Since(started))), nil
}

// exitDescription returns how the runtime exited, with its last output. That often names the cause,
// such as a library that the loader did not find.
func exitDescription(reply session.Reply) string {
	end := console.LastWorkerExit(reply)
	output := ""
	for _, e := range reply.Events {
		if text, ok := e.Body.(timeline.Text); ok {
			output += string(text.Data)
		}
	}
	if output = text.OneLine(output); output == "" {
		return end.Reason
	}
	return fmt.Sprintf("%s (it said: %s)", end.Reason, output[max(0, len(output)-maxOutputTailBytes):])
}

// maxOutputTailBytes bounds the quoted output of a runtime that does not start; the end is kept.
const maxOutputTailBytes = 300

// measureTurns measures short turns.
func (s checkedSession) measureTurns(ctx context.Context) (string, error) {
	var took []time.Duration
	for range 21 {
		started := time.Now()
		if _, err := s.runTurn(ctx, s.dialect.Whole); err != nil {
			return "", err
		}
		took = append(took, time.Since(started))
	}
	slices.Sort(took)
	return fmt.Sprintf("%s for %q (median of %d)", formatMilliseconds(took[len(took)/2]), s.dialect.Whole, len(took)), nil
}

func (s checkedSession) runTurn(ctx context.Context, code string) (session.Reply, error) {
	t, err := s.session.Submit(ctx, code)
	if err != nil {
		return session.Reply{}, err
	}
	return s.session.Wait(ctx, t, nil)
}

func (s checkedSession) askQuestion(ctx context.Context) (string, error) {
	reply, err := s.runTurn(ctx, s.dialect.Ask("? "))
	if err != nil {
		return "", err
	}
	return s.answerRequest(ctx, reply, "the answer")
}

// answerRequest answers the input request in reply and looks for the answer in the output.
func (s checkedSession) answerRequest(ctx context.Context, reply session.Reply, text string) (string, error) {
	if reply.InputRequest == nil {
		return "", errors.New("the prompt did not appear")
	}
	t, err := s.session.Answer(ctx, reply.InputRequest.ID, session.Input{Data: []byte(text + "\n")})
	if err != nil {
		return "", err
	}
	reply, err = s.session.Wait(ctx, t, &session.WaitOptions{After: reply.Next})
	if err != nil || reply.Outcome != timeline.OutcomeOK {
		return "", fmt.Errorf("the answer did not end the turn: it is %s (%s)", reply.State, reply.Outcome)
	}
	return "as the runtime reported", nil
}

func (s checkedSession) interruptLoop(ctx context.Context) (string, error) {
	t, err := s.session.Submit(ctx, s.dialect.Loop)
	if err != nil {
		return "", err
	}
	started := time.Now()
	result, err := s.session.Interrupt(ctx, t)
	if err != nil || result != session.InterruptIdle {
		return "", fmt.Errorf("the loop continues (%s)", result)
	}
	return fmt.Sprintf("stopped after %s, variables kept", formatMilliseconds(time.Since(started))), nil
}

// detectReader looks for a child that reads the terminal, which not every system shows.
func (s checkedSession) detectReader(ctx context.Context) (string, error) {
	t, err := s.session.Submit(ctx, s.dialect.Shell("read answer"))
	if err != nil {
		return "", err
	}
	reply, err := s.session.Wait(ctx, t, session.WaitAtMost(2*time.Second))
	if err != nil {
		return "", err
	}
	if reply.InputRequest == nil {
		if _, err := s.session.Interrupt(ctx, t); err != nil {
			return "", err
		}
		return "not on this system, where such a program seems to run until it is interrupted", nil
	}
	if _, err := s.answerRequest(ctx, reply, "x"); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, blocked in its read", reply.InputRequest.Reader), nil
}

func (s checkedSession) closeSession(ctx context.Context) (string, error) {
	started := time.Now()
	if err := s.session.Close(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("by %s after %s", s.session.StoppedBy(), formatMilliseconds(time.Since(started))), nil
}

// formatMilliseconds formats d for comparisons: "0.21 ms".
func formatMilliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
