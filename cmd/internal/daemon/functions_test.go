package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/internal/testkit/faultdial"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// newTextFunction returns a function as the fake worker calls it.
func newTextFunction(name string, f func(ctx context.Context, text string) (any, error)) session.Function {
	type in struct {
		Text string `json:"text"`
	}
	return session.FunctionOf(name, "For tests.", func(ctx context.Context, in in) (any, error) { return f(ctx, in.Text) })
}

// runFunctionCode runs code in the session main, and returns what became of it.
func runFunctionCode(t *testing.T, c *client.Client, code string) session.Reply {
	t.Helper()
	reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: code, WaitMS: processTimeout.Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestClientFunctions(t *testing.T) {
	t.Parallel()

	t.Run("code calls functions of a client, which learns who calls", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		owner, other := r.dial(), r.dial()
		r.newSession(owner)
		callers := make(chan client.Caller, 1)
		err := owner.Session("main").WithAuthor("ada").SetFunctions(t.Context(), newTextFunction("shout", func(ctx context.Context, text string) (any, error) {
			callers <- client.CallerOf(ctx)
			return strings.ToUpper(text), nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		reply := runFunctionCode(t, other, "call shout hello <&>")
		if printed(reply) != "HELLO <&>\n" {
			t.Errorf("got %q, %+v", printed(reply), reply)
		}
		if c := <-callers; c.Session != "main" || c.Turn != reply.Turn || c.Function != "shout" || c.Generation == 0 {
			t.Errorf("got the caller %+v", c)
		}
		given, err := other.Session("main").Functions(t.Context())
		if err != nil || len(given) != 1 || given[0].Name != "shout" || given[0].Author != "ada" || given[0].Client == "" || given[0].Gone {
			t.Errorf("got %+v, %v", given, err)
		}
		if now, err := other.GetSession(t.Context(), "main"); err != nil || now.Functions != 1 {
			t.Errorf("got %+v, %v", now, err)
		}
		if err := owner.Session("main").SetFunctions(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := turnError(runFunctionCode(t, other, "call shout x")); e.Name != "NameError" || !strings.Contains(e.Message, "the host offers none") {
			t.Errorf("after the removal: %+v", e)
		}
	})

	t.Run("an error has the name that the function chooses, and a panic is an error", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		err := c.Session("main").SetFunctions(t.Context(),
			newTextFunction("named", func(context.Context, string) (any, error) {
				return nil, &session.CallError{Name: "KeyError", Message: "no such key"}
			}),
			newTextFunction("plain", func(context.Context, string) (any, error) { return nil, errors.New("plain fault") }),
			newTextFunction("panics", func(context.Context, string) (any, error) { panic("oh no") }),
			newTextFunction("odd", func(context.Context, string) (any, error) { return make(chan int), nil }),
			newTextFunction("quits", func(context.Context, string) (any, error) { return nil, context.DeadlineExceeded }))
		if err != nil {
			t.Fatal(err)
		}
		for code, want := range map[string][2]string{
			"call named x":  {"KeyError", "no such key"},
			"call plain x":  {"CallError", "plain fault"},
			"call panics x": {"CallError", "the function panicked: oh no"},
			"call odd x":    {"CallError", "the result cannot be sent: a Go chan int"},
			"call quits x":  {"TimeoutError", "deadline"},
		} {
			wantTurnError(t, c, code, want[0], want[1])
		}
	})

	t.Run("a name that another connected client gives is refused", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		first, second := r.dial(), r.dial()
		r.newSession(first)
		one := newTextFunction("one", func(context.Context, string) (any, error) { return "first", nil })
		if err := first.Session("main").SetFunctions(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		two := newTextFunction("two", func(context.Context, string) (any, error) { return "second", nil })
		err := second.Session("main").SetFunctions(t.Context(), two, newTextFunction("one", func(context.Context, string) (any, error) { return "second", nil }))
		if session.KindOf(err) != session.KindExists || !strings.Contains(err.Error(), `has a function "one" already, which a client (client-`) {
			t.Errorf("got %v", err)
		}
		if err := second.Session("main").SetFunctions(t.Context(), two); err != nil {
			t.Fatal(err)
		}
		if reply := runFunctionCode(t, second, "call one x\ncall two x"); printed(reply) != "first\nsecond\n" {
			t.Errorf("got %q", printed(reply))
		}
	})

	t.Run("calls of a client that is gone fail at once and name it", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		owner, other := r.dial(), r.dial()
		r.newSession(owner)
		called := make(chan struct{})
		err := owner.Session("main").WithAuthor("ada").SetFunctions(t.Context(), newTextFunction("hang", func(ctx context.Context, _ string) (any, error) {
			close(called)
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		if err != nil {
			t.Fatal(err)
		}
		turn, err := other.Session("main").Submit(t.Context(), "call hang x")
		if err != nil {
			t.Fatal(err)
		}
		<-called
		_ = owner.Close()
		reply, err := other.Session("main").Wait(t.Context(), turn, session.WaitAtMost(processTimeout))
		if err != nil || turnError(reply).Name != "ConnectionError" || !strings.Contains(turnError(reply).Message, "hang: ada (client-") || !strings.Contains(turnError(reply).Message, "disconnected during the call") {
			t.Fatalf("got %+v, %v", turnError(reply), err)
		}
		wantTurnError(t, other, "call hang x", "ConnectionError", "which gave this function, has disconnected")
		given, err := other.Session("main").Functions(t.Context())
		if err != nil || len(given) != 1 || !given[0].Gone {
			t.Errorf("got %+v, %v", given, err)
		}
		err = other.Session("main").SetFunctions(t.Context(), newTextFunction("hang", func(context.Context, string) (any, error) { return "taken over", nil }))
		if err != nil {
			t.Fatal(err)
		}
		if reply := runFunctionCode(t, other, "call hang x"); printed(reply) != "taken over\n" {
			t.Errorf("got %q", printed(reply))
		}
	})

	t.Run("an interrupt of the turn cancels the call at the client", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		called, cancelled := make(chan struct{}), make(chan struct{})
		err := c.Session("main").SetFunctions(t.Context(),
			newTextFunction("hang", func(ctx context.Context, _ string) (any, error) {
				close(called)
				<-ctx.Done()
				close(cancelled)
				return "late", nil
			}),
			newTextFunction("same", func(_ context.Context, text string) (any, error) { return text, nil }))
		if err != nil {
			t.Fatal(err)
		}
		turn, err := c.Session("main").Submit(t.Context(), "call hang x")
		if err != nil {
			t.Fatal(err)
		}
		<-called
		if _, err := c.Session("main").Interrupt(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		<-cancelled
		if reply, err := c.Session("main").Wait(t.Context(), turn, session.WaitAtMost(processTimeout)); err != nil || reply.Outcome != "interrupted" {
			t.Errorf("got %+v, %v", reply, err)
		}
		if reply := runFunctionCode(t, c, "call same x"); printed(reply) != "x\n" {
			t.Errorf("the next call: %q", printed(reply))
		}
	})

	t.Run("large arguments arrive whole", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		var got atomic.Int64
		err := c.Session("main").SetFunctions(t.Context(), newTextFunction("size", func(_ context.Context, text string) (any, error) {
			got.Store(int64(len(text)))
			if text != strings.Repeat("é\"", len(text)/3) {
				return nil, errors.New("the text has changed")
			}
			return fmt.Sprint(len(text)), nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1 << 10, protocol.MaxInlineArguments / 4, protocol.MaxArgumentPart} { // the quote has two bytes in JSON
			if reply := runFunctionCode(t, c, "call size "+strings.Repeat("é\"", n)); printed(reply) != fmt.Sprintf("%d\n", 3*n) {
				t.Errorf("%d characters: got %.100q; the function got %d bytes", 2*n, printed(reply), got.Load())
			}
		}
	})

	t.Run("a client that connects again gives its functions again", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		observer := r.dial()
		r.newSession(observer)
		w := faultdial.NewDialer(r.socket)
		c := newConnOver(t, newLink(t, w))
		same := newTextFunction("same", func(_ context.Context, text string) (any, error) { return text, nil })
		if err := c.Session("main").SetFunctions(t.Context(), same); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			w.CutAfter(-1, 0)
			cuts := w.CutCount()
			_ = runFunctionCode(t, observer, "call same before") // its request is cut, or its answer
			wait.Until(t, "the connection is cut", func() bool { return w.CutCount() > cuts })
			wait.Until(t, "the client has given its functions again", func() bool {
				given, err := observer.Session("main").Functions(t.Context())
				return err == nil && len(given) == 1 && !given[0].Gone
			})
			w.CutAfter(-1, -1)
			wait.Until(t, "calls succeed again", func() bool {
				return printed(runFunctionCode(t, observer, "call same after")) == "after\n"
			})
		}
	})

	t.Run("another daemon gets no functions of sessions of the one before", func(t *testing.T) {
		t.Parallel()
		first, second := startDaemon(t, nil), startDaemon(t, nil)
		first.newSession(first.dial())
		observer := second.dial()
		second.newSession(observer)
		w := faultdial.NewDialer(first.socket)
		c := newConnOver(t, newLink(t, w))
		if err := c.Session("main").SetFunctions(t.Context(), newTextFunction("same", func(_ context.Context, text string) (any, error) { return text, nil })); err != nil {
			t.Fatal(err)
		}
		w.SetSocket(second.socket)
		w.SetBroken(true)
		w.SetBroken(false)
		wait.Until(t, "the client uses the other daemon", func() bool {
			_, err := c.GetSession(t.Context(), "main")
			return err == nil
		})
		if given, err := observer.Session("main").Functions(t.Context()); err != nil || len(given) != 0 {
			t.Errorf("got %+v, %v", given, err)
		}
	})

	t.Run("functions do not keep a name of a session that was closed", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		if err := c.Session("main").SetFunctions(t.Context(), newTextFunction("same", func(_ context.Context, text string) (any, error) { return text, nil })); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseSession(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		if err := c.Session("main").SetFunctions(t.Context()); session.KindOf(err) != session.KindClosed {
			t.Errorf("got %v", err)
		}
		r.newSession(c)
		if given, err := c.Session("main").Functions(t.Context()); err != nil || len(given) != 0 {
			t.Errorf("got %+v, %v", given, err)
		}
	})

	t.Run("calls beyond the bound are errors of the code", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		release := make(chan struct{})
		var running sync.WaitGroup
		running.Add(1024)
		err := c.Session("main").SetFunctions(t.Context(),
			session.Function{Name: "hang", Call: func(ctx context.Context, _ map[string]any) (any, error) {
				running.Done()
				select {
				case <-release:
				case <-ctx.Done():
				}
				return nil, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		var code strings.Builder
		for i := range 1024 {
			fmt.Fprintf(&code, "rawcall %d hang\n", 10_000+i)
		}
		runFunctionCode(t, c, code.String())
		running.Wait()
		wantTurnError(t, c, "call hang x", "CallError", "1024 calls are open already")
		close(release)
	})

	t.Run("refuses what is no function", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		for name, test := range map[string]struct{ params, want string }{
			"no list":              {`{"session":"main"}`, "functions is required"},
			"a name with a space":  {`{"session":"main","functions":[{"name":"a b"}]}`, "letters, digits and underscores"},
			"the same name twice":  {`{"session":"main","functions":[{"name":"a"},{"name":"a"}]}`, "used twice"},
			"a schema of a list":   {`{"session":"main","functions":[{"name":"a","parameters":{"type":"array"}}]}`, `not "object"`},
			"a schema that is not": {`{"session":"main","functions":[{"name":"a","parameters":5}]}`, "a"},
			"an unknown field":     {`{"session":"main","functions":[{"name":"a","params":{}}]}`, "params"},
			"a bad author":         {`{"session":"main","functions":[],"author":"a\u0007"}`, "author"},
			"too many":             {`{"session":"main","functions":[` + strings.Repeat(`{"name":"a"},`, 5000) + `{"name":"b"}]}`, "too many functions"},
		} {
			err := c.Call(t.Context(), protocol.MethodSetFunctions, json.RawMessage(test.params), nil)
			if session.KindOf(err) != "invalid_params" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if err := c.Call(t.Context(), protocol.MethodArguments, protocol.ArgumentsParams{Call: "call-1"}, nil); session.KindOf(err) != session.KindStale {
			t.Errorf("arguments of no call: %v", err)
		}
		if err := c.Session("main").SetFunctions(t.Context(), session.Function{Name: "none"}); session.KindOf(err) != session.KindInvalid {
			t.Errorf("a function without Call: %v", err)
		}
	})

	t.Run("many short clients leave a bounded number of functions", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		for i := range 40 {
			short := r.dial()
			if err := short.Session("main").SetFunctions(t.Context(), newTextFunction(fmt.Sprintf("f%d", i), func(context.Context, string) (any, error) { return "x", nil })); err != nil {
				t.Fatal(err)
			}
			_ = short.Close()
			wait.Until(t, "the daemon notices the end", func() bool {
				given, err := c.Session("main").Functions(t.Context())
				for _, g := range given {
					if !g.Gone {
						return false
					}
				}
				return err == nil
			})
		}
		given, err := c.Session("main").Functions(t.Context())
		if err != nil || len(given) > 17 || given[len(given)-1].Name == "" {
			t.Errorf("%d functions remain, %v", len(given), err)
		}
	})
}

// wantTurnError runs code in the session main whose turn ends with an error.
func wantTurnError(t *testing.T, c *client.Client, code, name, message string) {
	t.Helper()
	reply := runFunctionCode(t, c, code)
	if e := turnError(reply); e.Name != name || !strings.Contains(e.Message, message) {
		t.Errorf("%.40s: got %+v, %q", code, e, printed(reply))
	}
}

// printed returns what the code of a turn has printed.
func printed(reply session.Reply) string {
	var text strings.Builder
	for _, e := range reply.Events {
		if t, ok := e.Body.(timeline.Text); ok {
			text.Write(t.Data)
		}
	}
	return text.String()
}

// turnError returns how a turn has ended.
func turnError(reply session.Reply) timeline.TurnEnded {
	for _, e := range reply.Events {
		if end, ok := e.Body.(timeline.TurnEnded); ok {
			return end
		}
	}
	return timeline.TurnEnded{}
}
