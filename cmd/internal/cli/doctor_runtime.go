package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/terminal"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

// A checkup has the results of doctor for one language.
type checkup struct {
	Language   string `json:"language"`
	display    string
	code       conformance.Dialect // with which the language is tried
	Executable string              `json:"executable,omitempty"`
	Runtime    string              `json:"runtime_version,omitempty"`
	Why        string              `json:"why,omitempty"`
	Missing    string              `json:"missing,omitempty"` // why there is none
	Candidates []candidate         `json:"candidates"`
	Probes     []finding           `json:"probes"`
	Notices    []string            `json:"notices,omitempty"` // notices of the session
}

// A candidate is one place where the runtime was looked for.
type candidate struct {
	Source    string `json:"source"`
	Path      string `json:"path,omitempty"`
	Version   string `json:"version,omitempty"`
	Chosen    bool   `json:"taken"`
	Note      string `json:"note,omitempty"` // why it was passed over
	Requested bool   `json:"asked,omitempty"`
}

// newCheckup finds a language's runtime and examines it.
func newCheckup(ctx context.Context, c choice, lang language, careful caution) *checkup {
	spec, err := c.specOf(lang)
	d := &checkup{
		Language:   lang.name,
		display:    lang.display,
		Executable: spec.Path,
		Why:        spec.PathSource,
	}
	for _, looked := range lang.candidates(c.executable(lang), c.dir) {
		d.Candidates = append(d.Candidates, candidate(looked))
	}
	if spec.Notice != "" {
		d.Notices = append(d.Notices, spec.Notice)
	}
	var unread error
	if d.code, unread = lang.dialect(); unread != nil {
		d.Notices = append(d.Notices, "less is tried: "+oneLine(unread))
	}
	clean := func() {}
	if err == nil {
		clean, err = careful.apply(&spec, lang, c)
	}
	if err != nil {
		d.Missing = oneLine(err)
	} else {
		defer clean()
		d.examine(ctx, spec)
	}
	return d
}

// two is code that prints a 2, or empty if none is known.
func (d *checkup) two() string {
	if d.code.Print == nil {
		return ""
	}
	return d.code.Print("2")
}

// print writes the checkup for a person.
func (d *checkup) print(p *page) {
	if d.Missing != "" {
		p.line("%s: none: %s", d.display, d.Missing)
	} else {
		p.line("%s: %s %s", d.display, d.Executable, d.Runtime)
		p.line("  because: %s", d.Why)
	}
	if len(d.Candidates) > 0 {
		p.line("  looked at:")
	}
	for _, c := range d.Candidates {
		mark, tail := "-", c.Note
		if c.Chosen {
			mark, tail = "*", c.Path
		}
		p.line("  %s %s: %s", mark, c.Source, tail)
	}
	p.findings(d.Probes)
	for _, n := range d.Notices {
		p.line("  note    %s", n)
	}
}

// examine tries a session of its own.
func (d *checkup) examine(ctx context.Context, spec workers.Spec) {
	sup, err := supervisor.New(nil)
	if err != nil {
		d.Probes = []finding{{Name: "the runtime starts", Detail: oneLine(err)}}
		return
	}
	defer sup.Close()
	began := time.Now()
	opened, err := sup.Open(ctx, "doctor", spec)
	if err == nil {
		err = opened.WaitPrepared(ctx)
	}
	if err != nil {
		d.Probes = append(d.Probes, finding{Name: "the runtime starts", Detail: oneLine(err)})
		return
	}
	p := patient{opened, d.code}
	for _, probe := range []struct {
		name  string
		try   func(context.Context) (string, error)
		known bool // the code for it
	}{
		{"the runtime starts", func(ctx context.Context) (string, error) { return p.ready(ctx, began) }, true},
		{"a turn ends when the runtime is done", p.turns, d.code.Whole != ""},
		{"a question is seen and answered", p.question, d.code.Ask != nil},
		{"an interrupt reaches a loop", p.interrupt, d.code.Loop != ""},
		{"a program that reads the terminal is seen", p.reader, d.code.Shell != nil},
		{"everything ends", p.end, true},
	} {
		if !probe.known {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		detail, err := probe.try(ctx)
		cancel()
		if err != nil {
			detail = oneLine(err)
		}
		d.Probes = append(d.Probes, finding{Name: probe.name, OK: err == nil, Detail: detail})
		if i, _ := p.session.Info(ctx); i.RuntimeVersion != "" {
			d.Runtime = i.RuntimeVersion
		}
		if err != nil && p.session.State() != session.StateIdle {
			break // the others would only fail for the same reason
		}
	}
	for _, e := range p.session.Log().EventsSince(0) {
		if n, ok := e.Body.(timeline.Notice); ok {
			d.Notices = append(d.Notices, n.Message)
		}
	}
}

// A patient is the session that is examined.
type patient struct {
	session *supervisor.Session
	code    conformance.Dialect // of its language
}

func (p patient) ready(ctx context.Context, began time.Time) (string, error) {
	reply, err := p.session.Wait(ctx, 0, nil)
	switch {
	case err != nil:
		return "", fmt.Errorf("it is not ready after %s", probeTime)
	case reply.State == session.StateWaiting:
		return "", fmt.Errorf("its start-up asks for input: %q", reply.InputRequest.Prompt)
	case reply.State != session.StateIdle:
		return "", fmt.Errorf("it ended: %s", deathOf(reply))
	}
	return fmt.Sprintf("ready after %s", milliseconds(time.Since(began))), nil
}

// deathOf returns how the runtime ended, with its last output: a loader, for instance,
// names the library that is missing.
func deathOf(reply session.Reply) string {
	end := terminal.LastEnd(reply)
	said := ""
	for _, e := range reply.Events {
		if text, ok := e.Body.(timeline.Text); ok {
			said += string(text.Data)
		}
	}
	if said = strings.Join(strings.Fields(said), " "); said == "" {
		return end.Reason
	}
	return fmt.Sprintf("%s (it said: %s)", end.Reason, said[max(0, len(said)-maxSaid):])
}

// maxSaid bounds the output of a runtime that does not start, in bytes; the end is kept.
const maxSaid = 300

// turns measures short turns.
func (p patient) turns(ctx context.Context) (string, error) {
	var took []time.Duration
	for range 21 {
		began := time.Now()
		if _, err := p.turn(ctx, p.code.Whole); err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return fmt.Sprintf("%s for %q (median of %d)", milliseconds(took[len(took)/2]), p.code.Whole, len(took)), nil
}

func (p patient) turn(ctx context.Context, code string) (session.Reply, error) {
	t, err := p.session.Submit(ctx, code)
	if err != nil {
		return session.Reply{}, err
	}
	return p.session.Wait(ctx, t, nil)
}

func (p patient) question(ctx context.Context) (string, error) {
	reply, err := p.turn(ctx, p.code.Ask("? "))
	if err != nil {
		return "", err
	}
	return p.answer(ctx, reply, "the answer")
}

// answer answers the wait in reply, and looks for the answer in the output.
func (p patient) answer(ctx context.Context, reply session.Reply, text string) (string, error) {
	if reply.InputRequest == nil {
		return "", errors.New("the question did not appear")
	}
	t, err := p.session.Answer(ctx, reply.InputRequest.ID, session.Input{Data: []byte(text + "\n")})
	if err != nil {
		return "", err
	}
	reply, err = p.session.Wait(ctx, t, &session.WaitOptions{After: reply.Next})
	if err != nil || reply.Outcome != timeline.OutcomeOK {
		return "", fmt.Errorf("the answer did not end the turn: it is %s (%s)", reply.State, reply.Outcome)
	}
	return "by the runtime's own word", nil
}

func (p patient) interrupt(ctx context.Context) (string, error) {
	t, err := p.session.Submit(ctx, p.code.Loop)
	if err != nil {
		return "", err
	}
	began := time.Now()
	result, err := p.session.Interrupt(ctx, t)
	if err != nil || result != session.InterruptIdle {
		return "", fmt.Errorf("the loop goes on (%s)", result)
	}
	return fmt.Sprintf("over after %s, state kept", milliseconds(time.Since(began))), nil
}

// reader looks for a child that reads the terminal, which not every system shows.
func (p patient) reader(ctx context.Context) (string, error) {
	t, err := p.session.Submit(ctx, p.code.Shell("read answer"))
	if err != nil {
		return "", err
	}
	reply, err := p.session.Wait(ctx, t, session.WaitAtMost(2*time.Second))
	if err != nil {
		return "", err
	}
	if reply.InputRequest == nil {
		if _, err := p.session.Interrupt(ctx, t); err != nil {
			return "", err
		}
		return "not on this system: such a program seems to run until it is interrupted", nil
	}
	if _, err := p.answer(ctx, reply, "x"); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, blocked in its read", reply.InputRequest.Reader), nil
}

func (p patient) end(ctx context.Context) (string, error) {
	began := time.Now()
	if err := p.session.Close(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("by %s after %s", p.session.StoppedBy(), milliseconds(time.Since(began))), nil
}

// milliseconds formats d for comparisons: "0.21 ms".
func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
