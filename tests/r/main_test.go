//go:build linux || windows

package r_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestMain(m *testing.M) {
	supervisor.StageMain()
	os.Exit(m.Run())
}

// patience bounds every wait on a real process.
const patience = 10 * time.Second

// rounds is how often something random is tried.
func rounds(n int) int {
	if times, err := strconv.Atoi(os.Getenv("TURNSTONE_ROUNDS")); err == nil {
		return n * times
	}
	return n
}

// A repl is a session and how far its events have been read.
type repl struct {
	*supervisor.Session
	seen timeline.Seq
}

// open opens a session and waits for its start-up, which must not ask.
func open(t *testing.T, o r.Options) *repl {
	t.Helper()
	r := launch(t, o)
	r.settle(t)
	return r
}

// launch opens a session, of an R that sees no profile of the person who runs the
// test.
func launch(t *testing.T, o r.Options) *repl {
	t.Helper()
	if _, _, err := r.Find(r.FindOptions{}); err != nil {
		t.Skipf("R is not installed: install it with apt-get install r-base-core (%v)", err)
	}
	o.Env = append([]string{"R_PROFILE_USER=" + os.DevNull, "R_ENVIRON_USER=" + os.DevNull}, o.Env...)
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	s, err := sup.Open(t.Context(), "main", r.Spec(o))
	if err != nil {
		t.Fatal(err)
	}
	return &repl{Session: s}
}

// settle waits until the session is ready for input.
func (r *repl) settle(t *testing.T) {
	t.Helper()
	reply, err := r.Wait(limited(t), nil)
	if err != nil || reply.State != supervisor.StateIdle {
		t.Fatalf("the session is %s, want idle: %v %q", reply.State, err, reply.Text())
	}
	r.seen = reply.Next
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A result is what was seen of a turn.
type result struct {
	events  []timeline.Event
	outcome string // "" when it did not end in time
	failure string // the language's name of its error
	waits   int
	end     *timeline.GenerationEnded
}

// eof is an answer: the end of the file.
const eof = "\x04 end of file"

// turn runs code; each wait gets the next of the answers, as a line. The result
// has no outcome if the turn does not end in time, or asks for more.
func (r *repl) turn(t *testing.T, code string, answers ...string) result {
	t.Helper()
	return r.finish(t, r.submit(t, code), answers...)
}

func (r *repl) submit(t *testing.T, code string) *supervisor.Turn {
	t.Helper()
	turn, err := r.Submit(t.Context(), code)
	if err != nil {
		t.Fatalf("submit %.100q: %v", code, err)
	}
	return turn
}

// finish is turn for one that was submitted.
func (r *repl) finish(t *testing.T, turn *supervisor.Turn, answers ...string) result {
	t.Helper()
	return r.follow(t, turn, answers, false)
}

// ended is finish for a turn that something else ends, whatever it waits for.
func (r *repl) ended(t *testing.T, turn *supervisor.Turn) result {
	t.Helper()
	return r.follow(t, turn, nil, true)
}

// follow reads events until the turn has ended. Without wait, a wait for which
// there is no answer is the end as well.
func (r *repl) follow(t *testing.T, turn *supervisor.Turn, answers []string, wait bool) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var res result
	for e := range r.Events(ctx, r.seen) {
		r.seen = e.Seq
		res.events = append(res.events, e)
		switch b := e.Body.(type) {
		case timeline.Wait:
			res.waits++
			if len(answers) == 0 && wait {
				continue
			}
			if len(answers) == 0 {
				return res
			}
			in := supervisor.Input{Data: []byte(answers[0] + "\n")}
			if answers[0] == eof {
				in = supervisor.Input{EOF: true}
			}
			switch err := turn.Answer(ctx, e.Seq, in); {
			case errors.Is(err, supervisor.ErrStale): // an interrupt has ended it meanwhile
			case err != nil:
				t.Errorf("answer: %v", err)
			default:
				answers = answers[1:]
			}
		case timeline.TurnEnded:
			if e.Turn != turn.ID() {
				t.Errorf("turn %d ended, want turn %d", e.Turn, turn.ID())
			}
			res.outcome, res.failure = b.Outcome, b.Name
			if b.Outcome != "ended" {
				return res
			}
		case timeline.GenerationEnded:
			res.end = &b
			return res
		}
	}
	return res
}

// until reads events until one satisfies ok; nothing is answered meanwhile.
func (r *repl) until(t *testing.T, what string, ok func(timeline.Event) bool) timeline.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var res result
	for e := range r.Events(ctx, r.seen) {
		r.seen = e.Seq
		res.events = append(res.events, e)
		if ok(e) {
			return e
		}
	}
	t.Fatalf("%s did not come: %s, %.2000q", what, r.Info().State, res.script())
	return timeline.Event{}
}

// prints is for until: this text, whole.
func prints(want string) func(timeline.Event) bool {
	var got string
	return func(e timeline.Event) bool {
		if b, ok := e.Body.(timeline.Text); ok {
			got += string(b.Data)
		}
		return strings.Contains(got, want)
	}
}

// clean runs a turn that prints and reads, and fails unless nothing of what
// came before shows in it.
func (r *repl) clean(t *testing.T) {
	t.Helper()
	res := r.turn(t, "cat(readline('next? '), 6 * 7, '\\n')", "fresh")
	const want = `[wait "next? "][line "fresh"]fresh 42 ` + "\n"
	if got := res.script(); got != want || res.outcome != "ok" {
		t.Errorf("the next turn got %.2000q %s, want %q", got, res.outcome, want)
		r.restart(t)
	}
}

// restart gives later tests a worker that works.
func (r *repl) restart(t *testing.T) {
	t.Helper()
	if err := r.Reset(limited(t)); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
}

// text is what one stream got, or both without an argument.
func (res result) text(of ...timeline.Stream) string {
	var b strings.Builder
	for _, e := range res.events {
		if x, ok := e.Body.(timeline.Text); ok && (len(of) == 0 || slices.Contains(of, x.Stream)) {
			b.Write(x.Data)
		}
	}
	return b.String()
}

// script is the turn in words: text as it is, <err> around standard error, and in
// brackets images, waits and lines of input. A wait names the program if it
// reads the terminal.
func (res result) script() string {
	var b strings.Builder
	stream := timeline.Stdout
	turnTo := func(s timeline.Stream) {
		if s != stream {
			stream = s
			b.WriteString(map[timeline.Stream]string{timeline.Stderr: "<err>", timeline.Stdout: "</err>"}[s])
		}
	}
	for _, e := range res.events {
		switch x := e.Body.(type) {
		case timeline.Text:
			turnTo(x.Stream)
			b.Write(x.Data)
			continue
		case timeline.Image:
			turnTo(timeline.Stdout)
			b.WriteString("[image]")
		case timeline.Wait:
			turnTo(timeline.Stdout)
			b.WriteString("[")
			if x.Terminal {
				b.WriteString(x.Reader + " ")
			}
			if x.Kind != "line" {
				b.WriteString(x.Kind + " ")
			}
			fmt.Fprintf(&b, "wait %q]", x.Prompt)
		case timeline.InputLine:
			turnTo(timeline.Stdout)
			if x.Secret {
				b.WriteString("[secret line]")
			} else {
				fmt.Fprintf(&b, "[line %q]", x.Text)
			}
		case timeline.Gap:
			fmt.Fprintf(&b, "[gap of %d bytes]", x.Bytes)
		case timeline.Notice:
			fmt.Fprintf(&b, "[notice %q]", x.Message)
		}
	}
	return b.String()
}

// wants fails the test unless the turn ended well and looked like this.
func (res result) wants(t *testing.T, want string) {
	t.Helper()
	if got := res.script(); got != want || res.outcome != "ok" {
		t.Errorf("got %.2000q, outcome %q %s; want %.2000q and ok", got, res.outcome, res.failure, want)
	}
}
