package daemon_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/faultdial"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/session/sessiontest"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"

	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
)

// cutCount is how often a connection is cut: go test -run Cut -args -cuts 500
var cutCount = flag.Int("cuts", 60, "number of random cuts of the connection to a daemon")

func newLink(t testing.TB, w *faultdial.FaultyDialer) *client.Client {
	l := client.New(w, nil)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func newConnOver(t testing.TB, l *client.Client) *client.Client {
	t.Helper()
	if err := l.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCut(t *testing.T) {
	t.Parallel()

	t.Run("submitted code runs once", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		r.newSession(r.dial())
		w := faultdial.NewDialer(r.socket)
		c := newConnOver(t, newLink(t, w))
		calls := 0
		for ; w.CutCount() < *cutCount; calls++ {
			i := calls
			if i%2 == 0 {
				w.CutAfter(rand.IntN(300), -1) // the request, or the hello before it
			} else {
				w.CutAfter(-1, rand.IntN(1500)) // the answer
			}
			text := fmt.Sprintf("effect-%d", i)
			reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print " + text, WaitMS: processTimeout.Milliseconds()})
			if err != nil || reply.Text() != text+"\n" || reply.Turn != uint64(i+2) {
				t.Fatalf("submit %d: turn %d, %q, %v", i, reply.Turn, reply.Text(), err)
			}
		}
		w.CutAfter(-1, -1)
		if now, err := c.GetSession(t.Context(), "main"); err != nil || now.Turn != uint64(calls+1) {
			t.Errorf("%d submits made %d turns, %v", calls, now.Turn-1, err)
		}
	})

	t.Run("an answer to an input request is used once", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		r.newSession(r.dial())
		w := faultdial.NewDialer(r.socket)
		c := newConnOver(t, newLink(t, w))
		for i := 0; w.CutCount() < *cutCount; i++ {
			begun, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait a? \nwait b? ", WaitMS: processTimeout.Milliseconds()})
			if err != nil || begun.InputRequest == nil {
				t.Fatalf("turn %d: %+v, %v", i, begun, err)
			}
			if i%2 == 0 {
				w.CutAfter(rand.IntN(300), -1)
			} else {
				w.CutAfter(-1, rand.IntN(1200))
			}
			p := protocol.InputParams{Session: "main", InputRequest: begun.InputRequest.ID, Input: fmt.Sprintf("first %d\n", i), WaitMS: processTimeout.Milliseconds()}
			next, err := c.SendInput(t.Context(), p)
			if err != nil || next.InputRequest == nil || next.InputRequest.Prompt != "b? " || next.Turn != begun.Turn {
				t.Fatalf("the answer %d: %+v, %v", i, next, err)
			}
			w.CutAfter(-1, -1)
			p.InputRequest, p.Input = next.InputRequest.ID, "second\n"
			if last, err := c.SendInput(t.Context(), p); err != nil || last.Outcome != timeline.OutcomeOK {
				t.Fatalf("the second answer %d: %+v, %v", i, last, err)
			}
		}
	})

	t.Run("output is neither lost nor duplicated", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		plain := r.dial()
		r.newSession(plain)
		w := faultdial.NewDialer(r.socket)
		l := newLink(t, w)
		newConnOver(t, l) // do not retry the first address
		after := timeline.Seq(0)
		seen := map[timeline.Seq]bool{}
		var text strings.Builder
		const size = 200_000
		for turn := uint64(2); w.CutCount() < *cutCount; turn++ {
			w.CutAfter(-1, rand.IntN(size/4))
			if _, err := plain.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: fmt.Sprintf("bulk %d", size)}); err != nil {
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
				t.Fatalf("turn %d: %d bytes of %d arrived", turn, len(got), size)
			}
		}
	})

	t.Run("a file arrives as it was", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		r := startDaemon(t, func(o *daemon.Options) {
			plain := o.FindSpec
			o.FindSpec = func(p protocol.CreateParams) (workers.Spec, error) {
				s, err := plain(p)
				s.Dir = dir
				return s, err
			}
		})
		r.newSession(r.dial())
		w := faultdial.NewDialer(r.socket)
		s := newConnOver(t, newLink(t, w)).Session("main")
		content := make([]byte, 10*session.MaxPartBytes+1)
		_, _ = crand.Read(content)
		for i := 0; w.CutCount() < *cutCount/4; i++ {
			name := fmt.Sprintf("file %d", i)
			if i%2 == 0 {
				w.CutAfter(rand.IntN(4*session.MaxPartBytes), -1)
			} else {
				w.CutAfter(-1, rand.IntN(1200)) // the answers
			}
			again := func(int64) { w.CutAgain(rand.IntN(8 * session.MaxPartBytes)) }
			if err := session.Put(t.Context(), s, name, bytes.NewReader(content), &session.PutOptions{OnProgress: again}); err != nil {
				t.Fatalf("put %d: %v", i, err)
			}
			w.CutAfter(-1, rand.IntN(8*session.MaxPartBytes))
			var got bytes.Buffer
			if err := session.Get(t.Context(), s, name, &got); err != nil || !bytes.Equal(got.Bytes(), content) {
				t.Fatalf("get %d: %d bytes, %v", i, got.Len(), err)
			}
			w.CutAfter(-1, -1)
			if err := s.RemoveFile(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	})

	// The session suite runs over a connection that is cut repeatedly.
	t.Run("a session passes the interface suite", func(t *testing.T) {
		t.Parallel()
		if slowSystem != "" {
			t.Skip(slowSystem)
		}
		var needs []workers.Preparation // of the session that is being created
		r := startDaemon(t, func(o *daemon.Options) {
			plain := o.FindSpec
			o.FindSpec = func(p protocol.CreateParams) (workers.Spec, error) {
				s, err := plain(p)
				s.Preparations, s.Dir = needs, p.Dir
				return s, err
			}
		})
		plain, made := r.dial(), 0
		sessiontest.Run(t, func(t *testing.T, prepare ...workers.Preparation) session.Session {
			made++ // sessions are created one after the other, before their tests run
			needs = prepare
			w := faultdial.NewDialer(r.socket)
			c := newConnOver(t, newLink(t, w))
			name := fmt.Sprintf("s%d", made)
			if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: name, Dir: t.TempDir()}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = plain.CloseSession(context.Background(), name) }) // Windows does not remove the directory of a process
			if strings.HasSuffix(t.Name(), "no_longer_than_its_context") {
				return c.Session(name) // a call abandoned while the connection is down continues at the daemon
			}
			stop := make(chan struct{})
			cutting := make(chan struct{})
			go func() {
				defer close(cutting)
				again := time.NewTicker(20 * time.Millisecond)
				defer again.Stop()
				for w.CutCount() < 8 { // a call that waits all the time may lose no more; after that, even the longest line is transferred
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
			return retryingSession{c.Session(name)}
		})
	})
}

// A retryingSession is a session over a connection that is cut. If a cut makes a wait time out, it
// repeats the wait, as the error requests.
type retryingSession struct{ session.Session }

func (s retryingSession) As(author string) session.Session {
	return retryingSession{s.Session.As(author)}
}

func (s retryingSession) InDialect(dialect session.InputDialect) session.Session {
	return retryingSession{s.Session.InDialect(dialect)}
}

func (s retryingSession) SubmitQueued(ctx context.Context, code string) (uint64, error) {
	return s.Session.(session.TurnQueuer).SubmitQueued(ctx, code)
}

func (s retryingSession) StartTurn(code string, onStart func(uint64)) session.PendingTurn {
	return s.Session.(session.TurnStarter).StartTurn(code, onStart)
}

func (s retryingSession) StartAnswer(request timeline.Seq, in session.Input, onStart func(uint64)) session.PendingTurn {
	return s.Session.(session.TurnStarter).StartAnswer(request, in, onStart)
}

func (s retryingSession) Wait(ctx context.Context, turn uint64, o *session.WaitOptions) (session.Reply, error) {
	for {
		r, err := s.Session.Wait(ctx, turn, o)
		if o == nil || o.Timeout == 0 || ctx.Err() != nil || session.KindOf(err) != session.KindUnreachable {
			return r, err
		}
	}
}

func TestReconnect(t *testing.T) {
	t.Parallel()

	t.Run("silent connection keeps name, position and write lock", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		other := r.dial()
		r.newSession(other)
		w := faultdial.NewDialer(r.socket)
		l := newLink(t, w)
		s, _, err := l.Session("main").ReadAs(t.Context(), "agent")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.SaveReadCursor(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if err := s.TakeWriteLock(t.Context(), true); err != nil {
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

		light := w.PauseTraffic()
		defer light()
		answered := make(chan error, 1)
		go func() {
			_, err := s.Answer(t.Context(), asked.InputRequest.ID, session.Input{Data: []byte("yes\n")})
			answered <- err
		}()
		if err := <-answered; err != nil {
			t.Errorf("the answer sent on the silent connection: %v", err)
		}
		if r, err := s.Wait(t.Context(), turn, nil); err != nil || r.Outcome != timeline.OutcomeOK {
			t.Errorf("got %+v, %v", r, err)
		}
		if again, read, err := s.ReadAs(t.Context(), "agent"); err != nil || again.Author() != "agent" || read != 2 {
			t.Errorf("it reads as %q from %d on, %v", again.Author(), read, err)
		}
		if now, err := other.GetSession(t.Context(), "main"); err != nil || now.WriteLockHolder != "agent" {
			t.Errorf("the write lock belongs to %q, %v", now.WriteLockHolder, err)
		}
		if l.Downtime(time.Time{}) == 0 {
			t.Error("the link reports no outage")
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
	})

	t.Run("a call that times out reports the start of the outage", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		r.newSession(r.dial())
		w := faultdial.NewDialer(r.socket)
		l := newLink(t, w)
		c := newConnOver(t, l)
		var told []client.Outage
		var mu sync.Mutex
		l.OnOutage(func(o client.Outage) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, o)
		})
		w.SetBroken(true)
		_, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", WaitMS: 300})
		if session.KindOf(err) != session.KindUnreachable || !strings.Contains(err.Error(), "gpu cannot be reached since ") {
			t.Errorf("got %v", err)
		}
		l.SetReconnectTimeout(100 * time.Millisecond)
		if _, err := c.GetSession(t.Context(), "main"); session.KindOf(err) != session.KindUnreachable {
			t.Errorf("got %v", err)
		}
		l.SetReconnectTimeout(0)
		late, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.GetSession(late, "main")
			ended <- err
		}()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a call that is cancelled got %v", err)
		}
		w.SetBroken(false)
		if _, err := c.GetSession(t.Context(), "main"); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 2 || !told[0].To.IsZero() || told[0].Cause == nil || told[1].To.IsZero() {
			t.Errorf("the client got the outages %+v", told)
		}
	})

	t.Run("a remote that was never reached fails at once", func(t *testing.T) {
		t.Parallel()
		w := faultdial.NewDialer("/nowhere")
		w.SetBroken(true)
		if err := newLink(t, w).Connect(t.Context()); session.KindOf(err) != session.KindUnreachable || !strings.Contains(err.Error(), "no route") {
			t.Errorf("got %v", err)
		}
	})

	// Another daemon at the same address has none of the sessions: calls under way fail, and their
	// errors say so.
	t.Run("calls are not repeated at a restarted daemon", func(t *testing.T) {
		t.Parallel()
		r, after := startDaemon(t, nil), startDaemon(t, nil)
		r.newSession(r.dial())
		after.newSession(after.dial())
		w := faultdial.NewDialer(r.socket)
		c := newConnOver(t, newLink(t, w))
		watch, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		under := make(chan error, 1)
		go func() {
			_, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "sleep 1h", WaitMS: 3600 * 1000})
			under <- err
		}()
		wait.Until(t, "the turn is begun", func() bool { now, err := c.GetSession(t.Context(), "main"); return err == nil && now.Turn == 2 })
		w.SetSocket(after.socket)
		w.SetBroken(true)
		w.SetBroken(false)
		for {
			if _, err = watch.Next(t.Context()); err != nil {
				break
			}
		}
		if session.KindOf(err) != session.KindOutcomeUnknown {
			t.Errorf("the subscription got %v", err)
		}
		if err := <-under; session.KindOf(err) != session.KindOutcomeUnknown || !strings.Contains(err.Error(), "was restarted at") {
			t.Errorf("the call got %v", err)
		}
		if now, err := after.dial().GetSession(t.Context(), "main"); err != nil || now.Turn != 1 {
			t.Errorf("it ran there: turn %d, %v", now.Turn, err)
		}
		if _, err := c.ListSessions(t.Context()); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})

	// The daemon remembers a bounded number of clients. Repeating a call that it has forgotten would run
	// its code twice.
	t.Run("calls are not repeated if the daemon forgot the client", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		plain := r.dial()
		r.newSession(plain)
		w := faultdial.NewDialer(r.socket)
		c := newConnOver(t, newLink(t, w))
		under := make(chan error, 1)
		go func() {
			_, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "sleep 1h", WaitMS: 3600 * 1000})
			under <- err
		}()
		wait.Until(t, "the turn is begun", func() bool { now, err := plain.GetSession(t.Context(), "main"); return err == nil && now.Turn == 2 })
		w.SetBroken(true)
		wait.Until(t, "the client is gone", func() bool { all, err := plain.ListClients(t.Context(), ""); return err == nil && len(all) == 1 })
		for i := range 1024 {
			other := r.dialWithoutHello()
			if err := other.Call(t.Context(), protocol.MethodHello, protocol.HelloParams{ID: fmt.Sprintf("one-of-many-clients-%d", i), Epoch: 1}, nil); err != nil {
				t.Fatal(err)
			}
			_ = other.Close()
		}
		w.SetBroken(false)
		if err := <-under; session.KindOf(err) != session.KindOutcomeUnknown || !strings.Contains(err.Error(), "forgot this client") {
			t.Errorf("the call got %v", err)
		}
		if now, err := plain.GetSession(t.Context(), "main"); err != nil || now.Turn != 2 {
			t.Errorf("it ran again: turn %d, %v", now.Turn, err)
		}
		if _, err := c.ListSessions(t.Context()); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})

	// A subscription alone sends nothing, and does not notice a silent connection.
	t.Run("a subscription alone detects a silent connection", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		plain := r.dial()
		r.newSession(plain)
		w := faultdial.NewDialer(r.socket)
		watch, err := newConnOver(t, newLink(t, w)).Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.PauseTraffic()()
		if _, err := plain.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print news"}); err != nil {
			t.Fatal(err)
		}
		bounded, stop := context.WithTimeout(t.Context(), processTimeout)
		defer stop()
		for {
			e, err := watch.Next(bounded)
			if err != nil {
				t.Fatalf("the event did not arrive: %v", err)
			}
			if b, ok := e.Body.(timeline.Text); ok && strings.Contains(string(b.Data), "news") {
				return
			}
		}
	})

	// A wait below one millisecond must not become a poll, which would wait for a connection without limit.
	t.Run("a wait below one millisecond ends during an outage", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		r.newSession(r.dial())
		w := faultdial.NewDialer(r.socket)
		l := newLink(t, w)
		c := newConnOver(t, l)
		w.SetBroken(true)
		wait.Until(t, "the link is known to be down", func() bool { _, down := l.DownSince(); return down })
		ended := make(chan error, 1)
		go func() {
			_, err := c.Session("main").Wait(t.Context(), 0, &session.WaitOptions{Timeout: time.Microsecond})
			ended <- err
		}()
		select {
		case err := <-ended:
			if session.KindOf(err) != session.KindUnreachable {
				t.Errorf("got %v", err)
			}
		case <-time.After(processTimeout / 4):
			t.Fatal("the wait does not end")
		}
	})
}
