package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A line is one that came, as far as these tests look at it.
type line struct {
	raw    string
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress *int64          `json:"progress"`
		Total    *int64          `json:"total"`
		Message  string          `json:"message"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
}

func (l line) isFrame() bool { return l.Method == client.MethodProgress }

// isLast reports whether a frame says that it is over.
func (l line) isLast() bool {
	return l.isFrame() && l.Params.Total != nil && *l.Params.Total == *l.Params.Progress
}

// A peer is a client without a library.
type peer struct {
	t     testing.TB
	conn  net.Conn
	lines *bufio.Scanner
}

func (r *rig) peer() *peer {
	r.t.Helper()
	conn, err := client.Socket(r.socket).Dial(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	return &peer{r.t, conn, lines}
}

// request sends one, whose id is also the token that it may name.
func (p *peer) request(id, method, params string) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.conn, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) next() line {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	if !p.lines.Scan() {
		p.t.Fatalf("no line comes: %v", p.lines.Err())
	}
	l := line{raw: p.lines.Text()}
	if err := json.Unmarshal(p.lines.Bytes(), &l); err != nil {
		p.t.Fatalf("%s: %v", l.raw, err)
	}
	return l
}

// until returns the lines up to the answer to a request.
func (p *peer) until(id string) (all []line) {
	p.t.Helper()
	for {
		l := p.next()
		all = append(all, l)
		if l.Method == "" && string(l.ID) == id {
			return all
		}
	}
}

// untilToldOf waits for a frame for a token: its session has joined the work then.
func (p *peer) untilToldOf(token string) {
	p.t.Helper()
	for l := p.next(); !l.isFrame() || string(l.Params.Token) != token; l = p.next() {
	}
}

// frames are those among lines that are for a token, which keep all promises.
func frames(t testing.TB, lines []line, token string) (all []line) {
	t.Helper()
	for _, l := range lines {
		if !l.isFrame() {
			continue
		}
		if string(l.Params.Token) != token {
			t.Errorf("a frame for somebody else: %s", l.raw)
		}
		if n := len(all); n > 0 && (*l.Params.Progress < *all[n-1].Params.Progress || all[n-1].isLast()) {
			t.Errorf("after %s came %s", all[n-1].raw, l.raw)
		}
		all = append(all, l)
	}
	if len(all) == 0 || !all[len(all)-1].isLast() {
		t.Errorf("the last frame is not the last: %+v", all)
	}
	return all
}

// A work is a job that does what its test says.
type work struct {
	runs    atomic.Int64
	reports chan workers.Progress // to report, until the result
	result  chan error
	ended   chan error // why the job's context ended, once it did
}

func newWork() *work {
	return &work{reports: make(chan workers.Progress), result: make(chan error), ended: make(chan error, 1)}
}

func (w *work) run(ctx context.Context, report func(workers.Progress)) (workers.PreparationResult, error) {
	w.runs.Add(1)
	for {
		select {
		case p := <-w.reports:
			report(p)
		case err := <-w.result:
			return workers.PreparationResult{Env: []string{"PREPARED=yes"}}, err
		case <-ctx.Done():
			w.ended <- context.Cause(ctx)
			return workers.PreparationResult{}, ctx.Err()
		}
	}
}

// needing has sessions with packages need a preparation.
func needing(o *daemon.Options, make func(context.Context, func(workers.Progress)) (workers.PreparationResult, error)) {
	plain := o.Spec
	o.Spec = func(p client.CreateParams) (workers.Spec, error) {
		s, err := plain(p)
		if len(p.With) > 0 && p.With[0] == "bad" {
			return s, session.Errorf(session.KindInvalid, "with: bad is no package")
		}
		if len(p.With) > 0 {
			what := strings.Join(p.With, " ")
			s.Preparations = []workers.Preparation{{Key: what, Name: what, Timeout: time.Hour, Run: make}}
		}
		return s, err
	}
}

// preparing is a daemon whose sessions with packages wait for a work.
func preparing(t testing.TB) (*rig, *work) {
	w := newWork()
	return start(t, func(o *daemon.Options) { needing(o, w.run) }), w
}

func TestPrepare_OneJobForAllAndEachTokenIsToldToItsEnd(t *testing.T) {
	r, w := preparing(t)
	var peers []*peer
	tokens := []string{`7`, `"7"`, `9007199254740993`, `""`, `-1`}
	for i, token := range tokens {
		p := r.peer()
		p.request("1", client.MethodCreate, fmt.Sprintf(`{"name":"s%d","with":["numpy"],"progressToken":%s}`, i, token))
		if l := p.next(); string(l.ID) != "1" || !strings.Contains(string(l.Result), `"state":"preparing"`) {
			t.Fatalf("the answer does not come first: %s", l.raw)
		}
		if l := p.next(); !l.isFrame() || *l.Params.Progress != 0 || l.Params.Total != nil || l.Params.Message != "preparing numpy" {
			t.Fatalf("the first frame: %s", l.raw)
		}
		peers = append(peers, p)
	}
	for i, p := range peers {
		p.request("2", client.MethodStart, fmt.Sprintf(`{"session":"s%d","input":"env PREPARED","wait_ms":30000}`, i))
	}
	// All of it is there, and it is not over yet.
	w.reports <- workers.Progress{Done: 10, Total: 10, Message: "unpacking"}
	w.reports <- workers.Progress{Done: 3, Total: 10, Message: "a step back"}
	w.result <- nil
	for i, p := range peers {
		lines := p.until("2")
		if answer := lines[len(lines)-1]; answer.Error != nil || !strings.Contains(string(answer.Result), "yes") {
			t.Errorf("the turn: %s", answer.raw)
		}
		if all := frames(t, lines, tokens[i]); *all[len(all)-1].Params.Progress < 1 {
			t.Errorf("the last frame: %s", all[len(all)-1].raw)
		}
	}
	if n := w.runs.Load(); n != 1 {
		t.Errorf("the job was run %d times", n)
	}
}

// Frames of two sessions for one token could not be told apart.
func TestPrepare_ATokenIsForOneSessionAtATime(t *testing.T) {
	r, w := preparing(t)
	p := r.peer()
	p.request("1", client.MethodCreate, `{"name":"a","with":["x"],"progressToken":5}`)
	p.until("1")
	p.untilToldOf("5")
	p.request("2", client.MethodCreate, `{"name":"b","with":["x"],"progressToken":5}`)
	lines := p.until("2")
	if answer := lines[len(lines)-1]; answer.Error == nil || !strings.Contains(answer.Error.Message, "progressToken 5") {
		t.Errorf("the second: %s", answer.raw)
	}
	p.request("3", client.MethodCreate, `{"name":"b","with":["x"],"progressToken":"5"}`)
	p.until("3") // is another token
	p.untilToldOf(`"5"`)
	w.result <- nil
	for over := false; !over; {
		l := p.next()
		over = l.isLast() && string(l.Params.Token) == "5"
	}
	p.request("4", client.MethodCreate, `{"name":"c","with":["y"],"progressToken":5}`)
	for l := p.next(); ; l = p.next() {
		if string(l.ID) == "4" {
			if l.Error != nil {
				t.Errorf("once the first is over: %s", l.raw)
			}
			break
		}
	}
	w.result <- nil
}

func TestPrepare_AStartObeysItsCallerAndGoesOn(t *testing.T) {
	r, w := preparing(t)
	p := r.peer()
	p.request("1", client.MethodCreate, `{"name":"main","with":["x"]}`)
	p.until("1")
	p.request("3", client.MethodStart, `{"session":"main","input":"print never","wait_ms":60000}`)
	if _, err := fmt.Fprintln(p.conn, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`); err != nil {
		t.Fatal(err)
	}
	if l := p.next(); string(l.ID) != "3" || !strings.Contains(l.raw, "-32800") {
		t.Errorf("while it is prepared: %s", l.raw)
	}
	p.request("4", client.MethodStart, fmt.Sprintf(`{"session":"main","input":"print second","wait_ms":%d}`, patience.Milliseconds()))
	w.result <- nil
	l := p.until("4")
	if answer := l[len(l)-1]; answer.Error != nil || !strings.Contains(string(answer.Result), "second") || strings.Contains(string(answer.Result), "never") {
		t.Errorf("the next: %s", answer.raw)
	}
	if n := w.runs.Load(); n != 1 {
		t.Errorf("it was begun %d times", n)
	}
}

func TestPrepare_WhoComesLateBeginsWhereTheJobIs(t *testing.T) {
	r, w := preparing(t)
	first, late := r.peer(), r.peer()
	first.request("1", client.MethodCreate, `{"name":"a","with":["x"],"progressToken":"a"}`)
	first.until("1")
	w.reports <- workers.Progress{Done: 60, Total: 100, Message: "on the way"}
	for l := first.next(); *l.Params.Progress != 60; l = first.next() {
	}
	late.request("1", client.MethodCreate, `{"name":"b","with":["x"],"progressToken":"b"}`)
	late.until("1")
	if l := late.next(); *l.Params.Progress != 60 || *l.Params.Total != 100 || l.Params.Message != "on the way" {
		t.Errorf("got %s", l.raw)
	}
	w.result <- nil
	if l := late.next(); !l.isLast() || *l.Params.Progress != 60 {
		t.Errorf("got %s", l.raw)
	}
	// No frame of it is replayed, or kept; the session's timeline has it.
	after := r.dial()
	after.OnProgress(func(p client.HostProgress) { t.Errorf("a frame for nobody: %+v", p) })
	if _, err := after.Start(t.Context(), client.StartParams{Session: "b", Input: "print x", WaitMS: patience.Milliseconds()}); err != nil {
		t.Fatal(err)
	}
	stream, err := after.Subscribe(t.Context(), client.SubscribeParams{Session: "b"})
	if err != nil {
		t.Fatal(err)
	}
	var last timeline.Preparation
	for _, e := range collect(t, stream, endOfTurn(1)) {
		if p, is := e.Body.(timeline.Preparation); is {
			last = p
		}
	}
	if !last.IsDone() || last.Done != 60 {
		t.Errorf("the timeline says %+v", last)
	}
}

func TestPrepare_AFailureEndsTheIndicatorAndThenTheTurn(t *testing.T) {
	r, w := preparing(t)
	p := r.peer()
	p.request("1", client.MethodCreate, `{"name":"main","with":["x"],"progressToken":1}`)
	p.until("1")
	p.request("2", client.MethodStart, `{"session":"main","input":"print x"}`)
	w.reports <- workers.Progress{Message: "looking"}
	w.result <- errors.New("x cannot be prepared: no such thing\nERROR: the last line of the tool")
	lines := p.until("2")
	frames(t, lines, "1")
	answer := lines[len(lines)-1]
	if answer.Error == nil || answer.Error.Data["kind"] != string(session.KindStart) || !strings.Contains(answer.Error.Message, "the last line of the tool") {
		t.Errorf("the turn: %s", answer.raw)
	}
	p.request("3", client.MethodCreate, `{"name":"main"}`)
	if answer := p.until("3"); answer[len(answer)-1].Error != nil {
		t.Errorf("the name is not free: %s", answer[len(answer)-1].raw)
	}
}

func TestPrepare_AFailureIsRememberedUntilSomebodyIsTold(t *testing.T) {
	r, w := preparing(t)
	c := r.dial()
	create := func() {
		t.Helper()
		s, err := c.Create(t.Context(), client.CreateParams{Name: "main", With: []string{"x"}})
		if err != nil || s.State != session.StatePreparing {
			t.Fatalf("got %+v, %v", s, err)
		}
		w.result <- errors.New("it did not work")
	}
	failed := func() session.Info {
		t.Helper()
		for {
			s, err := c.Get(t.Context(), "main")
			if err != nil {
				t.Fatal(err)
			}
			if s.State != session.StatePreparing {
				return s
			}
		}
	}
	create()
	if s := failed(); s.State != session.StateEnded || s.PreparationError != "it did not work" {
		t.Errorf("got %+v", s)
	}
	if _, err := c.Start(t.Context(), client.StartParams{Session: "main", Input: "x"}); session.KindOf(err) != session.KindStart {
		t.Errorf("got %v", err)
	}
	if _, err := c.Get(t.Context(), "main"); session.KindOf(err) != session.KindClosed {
		t.Errorf("after it was told: %v", err)
	}
	create()
	failed()
	create() // in its place
	failed()
	if err := c.CloseSession(t.Context(), "main"); err != nil {
		t.Error(err)
	}
	if all, err := c.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestPrepare_AJobEndsWithTheLastWhoWantsIt(t *testing.T) {
	r, w := preparing(t)
	a, b := r.peer(), r.peer()
	a.request("1", client.MethodCreate, `{"name":"a","with":["x"],"progressToken":1}`)
	a.until("1")
	b.request("1", client.MethodCreate, `{"name":"b","with":["x"],"progressToken":2}`)
	b.until("1")
	w.reports <- workers.Progress{Done: 1} // it runs
	a.request("2", client.MethodClose, `{"session":"a"}`)
	lines := a.until("2")
	if lines[len(lines)-1].Error != nil {
		t.Errorf("closing: %s", lines[len(lines)-1].raw)
	}
	frames(t, lines, "1")
	w.reports <- workers.Progress{Done: 2} // it still runs
	b.request("2", client.MethodStart, `{"session":"b","input":"print x"}`)
	b.request("3", client.MethodClose, `{"session":"b"}`)
	lines = b.until("3")
	frames(t, lines, "2")
	for len(lines) > 0 && string(lines[0].ID) != "2" {
		lines = lines[1:]
	}
	if len(lines) == 0 {
		lines = b.until("2")
	}
	if e := lines[0].Error; e == nil || e.Data["kind"] != string(session.KindClosed) {
		t.Errorf("the turn: %s", lines[0].raw)
	}
	if err := <-w.ended; err == nil || !strings.Contains(err.Error(), "nobody waits") {
		t.Errorf("the job ended with %v", err)
	}
}

func TestPrepare_FramesAreFewAndTheNewestIsAmongThem(t *testing.T) {
	r, w := preparing(t)
	p := r.peer()
	p.request("1", client.MethodCreate, `{"name":"main","with":["x"],"progressToken":1}`)
	p.until("1")
	begun := time.Now()
	const reports = 20_000
	for i := range int64(reports) {
		w.reports <- workers.Progress{Done: i + 1}
	}
	var got []line
	for len(got) == 0 || *got[len(got)-1].Params.Progress < reports {
		got = append(got, p.next())
	}
	if most := 3 + int(time.Since(begun)/(100*time.Millisecond)); len(got) > most {
		t.Errorf("%d frames in %s", len(got), time.Since(begun))
	}
	w.result <- nil
	if l := p.next(); !l.isLast() {
		t.Errorf("got %s", l.raw)
	}
}

func TestPrepare_WithoutAGoodTokenThereAreNoFrames(t *testing.T) {
	r, w := preparing(t)
	for i, token := range []string{"", `,"progressToken":null`, `,"progressToken":{"a":1}`, `,"progressToken":[1]`, `,"progressToken":true`} {
		p := r.peer()
		p.request("1", client.MethodCreate, fmt.Sprintf(`{"name":"s%d","with":["x"]%s}`, i, token))
		p.until("1")
		p.request("2", client.MethodStart, fmt.Sprintf(`{"session":"s%d","input":"print x","wait_ms":30000}`, i))
		w.result <- nil
		if lines := p.until("2"); len(lines) != 1 || lines[0].Error != nil {
			t.Errorf("%s: got %+v", token, lines)
		}
	}
	// Where nothing is prepared, a token is of no use.
	p := r.peer()
	p.request("1", client.MethodCreate, `{"name":"plain","progressToken":1}`)
	p.request("2", client.MethodStart, `{"session":"plain","input":"print x","wait_ms":30000}`)
	for _, l := range p.until("2") {
		if l.isFrame() {
			t.Errorf("got %s", l.raw)
		}
	}
}

func TestPrepare_WhileItLastsNothingElseWaitsForIt(t *testing.T) {
	r, w := preparing(t)
	c := r.dial()
	if _, err := c.Create(t.Context(), client.CreateParams{Name: "main", With: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	if reply, err := c.Wait(t.Context(), client.WaitParams{Session: "main", WaitMS: 1}); err != nil || reply.State != session.StatePreparing {
		t.Errorf("a wait: %+v, %v", reply, err)
	}
	if reply, err := c.Wait(t.Context(), client.WaitParams{Session: "main"}); err != nil || reply.State != session.StatePreparing {
		t.Errorf("a poll: %+v, %v", reply, err)
	}
	if i, err := c.Interrupt(t.Context(), client.InterruptParams{Session: "main", Turn: 1}); err != nil || i.Result != "not running" {
		t.Errorf("an interrupt: %+v, %v", i, err)
	}
	stream, err := c.Subscribe(t.Context(), client.SubscribeParams{Session: "main"})
	if err != nil {
		t.Fatal(err)
	}
	collect(t, stream, func(e timeline.Event) bool { return e.Body == timeline.Preparation{Name: "x"} })
	if all, err := c.List(t.Context()); err != nil || len(all) != 1 || all[0].State != session.StatePreparing || all[0].Packages[0] != "x" || time.Since(all[0].OpenedAt) > patience {
		t.Errorf("the list: %+v, %v", all, err)
	}
	if _, err := c.Create(t.Context(), client.CreateParams{Name: "main"}); session.KindOf(err) != session.KindExists {
		t.Errorf("the same name: %v", err)
	}
	if _, err := c.Create(t.Context(), client.CreateParams{With: []string{"bad"}}); session.KindOf(err) != "invalid_params" {
		t.Errorf("what is no package: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Wait(t.Context(), client.WaitParams{Session: "main", WaitMS: patience.Milliseconds()})
		waiting <- err
	}()
	w.result <- nil
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

func TestPrepare_WhatASpecPreparesIsAJobAndIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	goOn := make(chan struct{})
	r := start(t, func(o *daemon.Options) {
		plain := o.Spec
		o.Spec = func(p client.CreateParams) (workers.Spec, error) {
			s, err := plain(p)
			s.Preparations = []workers.Preparation{{Key: "shim", Run: func(_ context.Context, report func(workers.Progress)) (workers.PreparationResult, error) {
				runs.Add(1)
				report(workers.Progress{Message: "compiling"})
				<-goOn
				return workers.PreparationResult{Files: map[string][]byte{"made": []byte("x")}}, nil
			}}}
			return s, err
		}
	})
	a, b := r.peer(), r.peer()
	for i, p := range []*peer{a, b} {
		p.request("1", client.MethodCreate, fmt.Sprintf(`{"name":"s%d","progressToken":1}`, i))
		p.until("1")
		for l := p.next(); l.Params.Message != "compiling"; l = p.next() {
		}
	}
	close(goOn)
	for i, p := range []*peer{a, b} {
		p.request("2", client.MethodStart, fmt.Sprintf(`{"session":"s%d","input":"print x","wait_ms":30000}`, i))
		lines := p.until("2")
		frames(t, lines, "1")
		if answer := lines[len(lines)-1]; answer.Error != nil {
			t.Error(answer.raw)
		}
		p.request("3", client.MethodReset, fmt.Sprintf(`{"session":"s%d"}`, i))
		p.until("3")
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("it was prepared %d times", n)
	}
}

func TestPrepare_TheDaemonIsNotIdleMeanwhileAndItsEndIsTheJobs(t *testing.T) {
	t.Parallel()
	w := newWork()
	clock := startWithClock(t, func(o *daemon.Options) { needing(o, w.run) })
	p := clock.peer()
	p.request("1", client.MethodCreate, `{"name":"main","with":["x"],"progressToken":1}`)
	p.until("1")
	clock.staysAt(clock.now().Add(2 * idleTime))
	select {
	case w.reports <- workers.Progress{Done: 1}:
	case err := <-w.ended:
		t.Fatalf("it was given up: %v", err)
	}
	clock.cancel()
	<-w.ended
}
