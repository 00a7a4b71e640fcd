package daemon_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/session/sessiontest"
	"github.com/turnstone-repl/turnstone/tests/ways"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"

	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
)

// cuts is how often a way is cut: go test -run Cut -args -cuts 500
var cuts = flag.Int("cuts", 60, "how often the way to a daemon is cut at random")

func linkOver(t testing.TB, w *ways.Way) *client.Link {
	l := client.NewLink(w, nil)
	t.Cleanup(l.Close)
	return l
}

func through(t testing.TB, l *client.Link) *client.Client {
	t.Helper()
	c, err := l.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCut_InASubmitRunsItsCodeOnce(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.session(r.dial())
	w := ways.New(r.socket)
	c := through(t, linkOver(t, w))
	calls := 0
	for ; w.Cuts() < *cuts; calls++ {
		i := calls
		if i%2 == 0 {
			w.CutAfter(rand.IntN(300), -1) // the request, or the hello before it
		} else {
			w.CutAfter(-1, rand.IntN(1500)) // the answer
		}
		text := fmt.Sprintf("effect-%d", i)
		reply, err := c.Start(t.Context(), client.StartParams{Session: "main", Input: "print " + text, WaitMS: patience.Milliseconds()})
		if err != nil || reply.Text() != text+"\n" || reply.Turn != uint64(i+2) {
			t.Fatalf("submit %d: turn %d, %q, %v", i, reply.Turn, reply.Text(), err)
		}
	}
	w.CutAfter(-1, -1)
	if now, err := c.Get(t.Context(), "main"); err != nil || now.Turn != uint64(calls+1) {
		t.Errorf("%d submits made %d turns, %v", calls, now.Turn-1, err)
	}
}

func TestCut_InAnAnswerOfAWaitUsesItOnce(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.session(r.dial())
	w := ways.New(r.socket)
	c := through(t, linkOver(t, w))
	for i := 0; w.Cuts() < *cuts; i++ {
		begun, err := c.Start(t.Context(), client.StartParams{Session: "main", Input: "wait a? \nwait b? ", WaitMS: patience.Milliseconds()})
		if err != nil || begun.InputRequest == nil {
			t.Fatalf("turn %d: %+v, %v", i, begun, err)
		}
		if i%2 == 0 {
			w.CutAfter(rand.IntN(300), -1)
		} else {
			w.CutAfter(-1, rand.IntN(1200))
		}
		p := client.InputParams{Session: "main", Wait: begun.InputRequest.ID, Input: fmt.Sprintf("first %d\n", i), WaitMS: patience.Milliseconds()}
		next, err := c.Input(t.Context(), p)
		if err != nil || next.InputRequest == nil || next.InputRequest.Prompt != "b? " || next.Turn != begun.Turn {
			t.Fatalf("the answer %d: %+v, %v", i, next, err)
		}
		w.CutAfter(-1, -1)
		p.Wait, p.Input = next.InputRequest.ID, "second\n"
		if last, err := c.Input(t.Context(), p); err != nil || last.Outcome != timeline.OutcomeOK {
			t.Fatalf("the second answer %d: %+v, %v", i, last, err)
		}
	}
}

func TestCut_InOutputLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	plain := r.dial()
	r.session(plain)
	w := ways.New(r.socket)
	l := linkOver(t, w)
	through(t, l) // the first way to the daemon is not tried again
	after := timeline.Seq(0)
	seen := map[timeline.Seq]bool{}
	var text strings.Builder
	const size = 200_000
	for turn := uint64(2); w.Cuts() < *cuts; turn++ {
		w.CutAfter(-1, rand.IntN(size/4))
		if _, err := plain.Start(t.Context(), client.StartParams{Session: "main", Input: fmt.Sprintf("bulk %d", size)}); err != nil {
			t.Fatal(err)
		}
		text.Reset()
		for e, err := range l.Session("main").Events(t.Context(), after) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Seq != after+1 || seen[e.Seq] {
				t.Fatalf("event %d follows %d", e.Seq, after)
			}
			after, seen[e.Seq] = e.Seq, true
			if b, ok := e.Body.(timeline.Text); ok && e.Turn == turn {
				text.Write(b.Data)
				w.CutAgain(rand.IntN(size / 2))
			}
			if _, over := e.Body.(timeline.TurnEnded); over && e.Turn == turn {
				break
			}
		}
		if got := text.String(); len(got) != size || !strings.HasPrefix(got, fmt.Sprintf("%063d\n%063d\n", 0, 1)) {
			t.Fatalf("turn %d: %d bytes of %d came", turn, len(got), size)
		}
	}
}

// The suite of sessions holds over a way that is cut again and again.
func TestCut_SessionKeepsThePromisesOfTheInterface(t *testing.T) {
	t.Parallel()
	var needs []workers.Preparation // of the session that is being made
	r := start(t, func(o *daemon.Options) {
		plain := o.Spec
		o.Spec = func(p client.CreateParams) (workers.Spec, error) {
			s, err := plain(p)
			s.Preparations = needs
			return s, err
		}
	})
	made := 0
	sessiontest.Run(t, func(t *testing.T, prepare ...workers.Preparation) session.Session {
		made++ // sessions are made one after the other, before their tests run
		needs = prepare
		w := ways.New(r.socket)
		c := through(t, linkOver(t, w))
		name := fmt.Sprintf("s%d", made)
		if _, err := c.Create(t.Context(), client.CreateParams{Name: name}); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(t.Name(), "no_longer_than_its_context") {
			return c.Session(name) // a call that is given up while the way is down goes on there
		}
		stop := make(chan struct{})
		cutting := make(chan struct{})
		go func() {
			defer close(cutting)
			again := time.NewTicker(20 * time.Millisecond)
			defer again.Stop()
			for w.Cuts() < 10 { // then even the longest line passes
				select {
				case <-again.C:
					w.CutAgain(rand.IntN(1 << rand.IntN(20)))
				case <-stop:
					return
				}
			}
			w.CutAfter(-1, -1)
		}()
		t.Cleanup(func() {
			close(stop)
			<-cutting
		})
		return waitsAgain{c.Session(name)}
	})
}

// waitsAgain is a session over a way that is cut. A wait that is too short for the cut in it is
// made again, as its error asks for.
type waitsAgain struct{ session.Session }

func (s waitsAgain) As(author string) session.Session { return waitsAgain{s.Session.As(author)} }

func (s waitsAgain) Wait(ctx context.Context, turn uint64, o *session.WaitOptions) (session.Reply, error) {
	for {
		r, err := s.Session.Wait(ctx, turn, o)
		if o == nil || o.Timeout == 0 || ctx.Err() != nil || session.KindOf(err) != client.KindUnreachable {
			return r, err
		}
	}
}

func TestLink_ADarkWayIsNoticedAndItsClientHasItsNameItsPlaceAndItsKeyboardAgain(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	other := r.dial()
	r.session(other)
	w := ways.New(r.socket)
	l := linkOver(t, w)
	s, _, err := l.Session("main").ReadAs(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Mark(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := s.Take(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	follows, stop := context.WithCancel(t.Context())
	defer stop()
	events := make(chan timeline.Event, 1000)
	go func() {
		defer close(events)
		for e, err := range s.Events(follows, 0) {
			if err != nil {
				return
			}
			events <- e
		}
	}()
	turn, err := s.Submit(t.Context(), "wait go? ")
	if err != nil {
		t.Fatal(err)
	}
	asked, err := s.Wait(t.Context(), turn, nil)
	if err != nil || asked.InputRequest == nil {
		t.Fatalf("got %+v, %v", asked, err)
	}

	light := w.GoDark()
	defer light()
	answered := make(chan error, 1)
	go func() {
		_, err := s.Answer(t.Context(), asked.InputRequest.ID, session.Input{Data: []byte("yes\n")})
		answered <- err
	}()
	if err := <-answered; err != nil {
		t.Errorf("the answer that went into the dark: %v", err)
	}
	if r, err := s.Wait(t.Context(), turn, nil); err != nil || r.Outcome != timeline.OutcomeOK {
		t.Errorf("got %+v, %v", r, err)
	}
	if again, read, err := s.ReadAs(t.Context(), "agent"); err != nil || again.Author() != "agent" || read != 2 {
		t.Errorf("it reads as %q from %d on, %v", again.Author(), read, err)
	}
	if now, err := other.Get(t.Context(), "main"); err != nil || now.WriteLockHolder != "agent" {
		t.Errorf("the keyboard belongs to %q, %v", now.WriteLockHolder, err)
	}
	if l.Downtime(time.Time{}) == 0 {
		t.Error("it was never down")
	}
	last := timeline.Seq(0)
	for e := range events {
		if e.Seq != last+1 {
			t.Errorf("event %d follows %d", e.Seq, last)
		}
		last = e.Seq
		if _, over := e.Body.(timeline.TurnEnded); over && e.Turn == turn {
			stop()
			break
		}
	}
}

func TestLink_ACallThatMayWaitNoLongerSaysSinceWhenThePlaceIsDown(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.session(r.dial())
	w := ways.New(r.socket)
	l := linkOver(t, w)
	c := through(t, l)
	var told []client.Outage
	var mu sync.Mutex
	l.OnOutage(func(o client.Outage) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, o)
	})
	w.BreakDown(true)
	_, err := c.Wait(t.Context(), client.WaitParams{Session: "main", WaitMS: 300})
	if session.KindOf(err) != client.KindUnreachable || !strings.Contains(err.Error(), "gpu cannot be reached since ") {
		t.Errorf("got %v", err)
	}
	l.Patience(100 * time.Millisecond)
	if _, err := c.Get(t.Context(), "main"); session.KindOf(err) != client.KindUnreachable {
		t.Errorf("got %v", err)
	}
	l.Patience(0)
	late, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Get(late, "main")
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is cancelled got %v", err)
	}
	w.BreakDown(false)
	if _, err := c.Get(t.Context(), "main"); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 2 || !told[0].To.IsZero() || told[0].Why == nil || told[1].To.IsZero() {
		t.Errorf("it was told %+v", told)
	}
}

func TestLink_APlaceThatWasNeverThereIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	w := ways.New("/nowhere")
	w.BreakDown(true)
	if _, err := linkOver(t, w).Client(t.Context()); session.KindOf(err) != client.KindUnreachable || !strings.Contains(err.Error(), "no route") {
		t.Errorf("got %v", err)
	}
}

// Another daemon at the same place has none of the sessions: what was under way is lost, and says
// so.
func TestLink_ACallIsNotRepeatedAtAnotherDaemon(t *testing.T) {
	t.Parallel()
	r, after := start(t, nil), start(t, nil)
	r.session(r.dial())
	after.session(after.dial())
	w := ways.New(r.socket)
	c := through(t, linkOver(t, w))
	watch, err := c.Subscribe(t.Context(), client.SubscribeParams{Session: "main"})
	if err != nil {
		t.Fatal(err)
	}
	under := make(chan error, 1)
	go func() {
		_, err := c.Start(t.Context(), client.StartParams{Session: "main", Input: "sleep 1h", WaitMS: 3600 * 1000})
		under <- err
	}()
	r.until("the turn is begun", func() bool { now, err := c.Get(t.Context(), "main"); return err == nil && now.Turn == 2 })
	w.Leads(after.socket)
	w.BreakDown(true)
	w.BreakDown(false)
	for {
		if _, err = watch.Next(t.Context()); err != nil {
			break
		}
	}
	if session.KindOf(err) != client.KindLost {
		t.Errorf("the subscription got %v", err)
	}
	if err := <-under; session.KindOf(err) != client.KindLost || !strings.Contains(err.Error(), "was started anew") {
		t.Errorf("the call got %v", err)
	}
	if now, err := after.dial().Get(t.Context(), "main"); err != nil || now.Turn != 1 {
		t.Errorf("it ran there: turn %d, %v", now.Turn, err)
	}
	if _, err := c.List(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// The daemon remembers only so many clients. To repeat a call that it has forgotten would run its
// code twice.
func TestLink_ACallIsNotRepeatedWhenItsDaemonHasForgottenTheClient(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	plain := r.dial()
	r.session(plain)
	w := ways.New(r.socket)
	c := through(t, linkOver(t, w))
	under := make(chan error, 1)
	go func() {
		_, err := c.Start(t.Context(), client.StartParams{Session: "main", Input: "sleep 1h", WaitMS: 3600 * 1000})
		under <- err
	}()
	r.until("the turn is begun", func() bool { now, err := plain.Get(t.Context(), "main"); return err == nil && now.Turn == 2 })
	w.BreakDown(true)
	r.until("the client is gone", func() bool { all, err := plain.Clients(t.Context(), ""); return err == nil && len(all) == 1 })
	for i := range 1024 {
		other := r.connect()
		if err := other.Call(t.Context(), client.MethodHello, client.HelloParams{ID: fmt.Sprintf("one-of-many-clients-%d", i), Epoch: 1}, nil); err != nil {
			t.Fatal(err)
		}
		_ = other.Close()
	}
	w.BreakDown(false)
	if err := <-under; session.KindOf(err) != client.KindLost || !strings.Contains(err.Error(), "has forgotten this client") {
		t.Errorf("the call got %v", err)
	}
	if now, err := plain.Get(t.Context(), "main"); err != nil || now.Turn != 2 {
		t.Errorf("it ran again: turn %d, %v", now.Turn, err)
	}
	if _, err := c.List(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A subscription alone asks nothing, and is told of nothing over a dark way.
func TestLink_ADarkWayIsNoticedByASubscriptionAlone(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	plain := r.dial()
	r.session(plain)
	w := ways.New(r.socket)
	watch, err := through(t, linkOver(t, w)).Subscribe(t.Context(), client.SubscribeParams{Session: "main"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.GoDark()()
	if _, err := plain.Start(t.Context(), client.StartParams{Session: "main", Input: "print news"}); err != nil {
		t.Fatal(err)
	}
	bounded, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for {
		e, err := watch.Next(bounded)
		if err != nil {
			t.Fatalf("the news did not come: %v", err)
		}
		if b, ok := e.Body.(timeline.Text); ok && strings.Contains(string(b.Data), "news") {
			return
		}
	}
}

// Less than a millisecond is a time, too, and not a poll, which would wait for the link without end.
func TestLink_AWaitOfLessThanAMillisecondEndsWhileThePlaceIsDown(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.session(r.dial())
	w := ways.New(r.socket)
	l := linkOver(t, w)
	c := through(t, l)
	w.BreakDown(true)
	r.until("the link is known to be down", func() bool { _, down := l.Down(); return down })
	ended := make(chan error, 1)
	go func() {
		_, err := c.Session("main").Wait(t.Context(), 0, &session.WaitOptions{Timeout: time.Microsecond})
		ended <- err
	}()
	select {
	case err := <-ended:
		if session.KindOf(err) != client.KindUnreachable {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience / 4):
		t.Fatal("it waits without end")
	}
}
