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

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A receivedLine is a line from the daemon, with the fields that these tests read.
type receivedLine struct {
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

func (l receivedLine) isProgress() bool { return l.Method == protocol.MethodProgress }

// isLast reports whether a frame ends the progress.
func (l receivedLine) isLast() bool {
	return l.isProgress() && l.Params.Total != nil && *l.Params.Total == *l.Params.Progress
}

// A rawPeer is a client that reads and writes plain lines.
type rawPeer struct {
	t     testing.TB
	conn  net.Conn
	lines *bufio.Scanner
}

func (d *testDaemon) newPeer() *rawPeer {
	d.t.Helper()
	conn, err := client.Socket(d.socket).Dial(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	return &rawPeer{d.t, conn, lines}
}

// sendRequest sends a request. Its id is also its progress token.
func (p *rawPeer) sendRequest(id, method, params string) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.conn, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		p.t.Fatal(err)
	}
}

func (p *rawPeer) nextLine() receivedLine {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(processTimeout))
	if !p.lines.Scan() {
		p.t.Fatalf("no line arrives: %v", p.lines.Err())
	}
	l := receivedLine{raw: p.lines.Text()}
	if err := json.Unmarshal(p.lines.Bytes(), &l); err != nil {
		p.t.Fatalf("%s: %v", l.raw, err)
	}
	return l
}

// readUntilAnswer returns the lines up to the answer to a request.
func (p *rawPeer) readUntilAnswer(id string) (all []receivedLine) {
	p.t.Helper()
	for {
		l := p.nextLine()
		all = append(all, l)
		if l.Method == "" && string(l.ID) == id {
			return all
		}
	}
}

// waitForProgress waits for a frame for a token. By then, its session has joined the job.
func (p *rawPeer) waitForProgress(token string) {
	p.t.Helper()
	for l := p.nextLine(); !l.isProgress() || string(l.Params.Token) != token; l = p.nextLine() {
	}
}

// wantProgress returns the progress frames for a token, and checks them.
func wantProgress(t testing.TB, lines []receivedLine, token string) (all []receivedLine) {
	t.Helper()
	for _, l := range lines {
		if !l.isProgress() {
			continue
		}
		if string(l.Params.Token) != token {
			t.Errorf("a frame for another token: %s", l.raw)
		}
		if n := len(all); n > 0 && (*l.Params.Progress < *all[n-1].Params.Progress || all[n-1].isLast()) {
			t.Errorf("after %s came %s", all[n-1].raw, l.raw)
		}
		all = append(all, l)
	}
	if len(all) == 0 || !all[len(all)-1].isLast() {
		t.Errorf("the final frame is missing: %+v", all)
	}
	return all
}

// A fakeJob is a preparation that its test controls.
type fakeJob struct {
	runs    atomic.Int64
	reports chan workers.PreparationProgress // the progress that the job reports before its result
	result  chan error
	ended   chan error // receives why the context of the job ended
}

func newFakeJob() *fakeJob {
	return &fakeJob{reports: make(chan workers.PreparationProgress), result: make(chan error), ended: make(chan error, 1)}
}

func (j *fakeJob) run(ctx context.Context, report func(workers.PreparationProgress)) (workers.PreparationResult, error) {
	j.runs.Add(1)
	for {
		select {
		case p := <-j.reports:
			report(p)
		case err := <-j.result:
			return workers.PreparationResult{Env: []string{"PREPARED=yes"}}, err
		case <-ctx.Done():
			j.ended <- context.Cause(ctx)
			return workers.PreparationResult{}, ctx.Err()
		}
	}
}

// withPreparation makes sessions with packages need a preparation.
func withPreparation(o *daemon.Options, make func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error)) {
	plain := o.FindSpec
	o.FindSpec = func(p protocol.CreateParams) (workers.Spec, error) {
		s, err := plain(p)
		if len(p.Packages) > 0 && p.Packages[0] == "bad" {
			return s, session.Errorf(session.KindInvalid, "with: bad is not a package")
		}
		if len(p.Packages) > 0 {
			what := strings.Join(p.Packages, " ")
			s.Preparations = []workers.Preparation{{Key: what, Name: what, Timeout: time.Hour, Run: make}}
		}
		return s, err
	}
}

// newPreparingDaemon starts a daemon whose sessions with packages wait for a fakeJob.
func newPreparingDaemon(t testing.TB) (*testDaemon, *fakeJob) {
	w := newFakeJob()
	return startDaemon(t, func(o *daemon.Options) { withPreparation(o, w.run) }), w
}

func TestPrepareProgress(t *testing.T) {
	t.Run("one job reports to every token until its end", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		var peers []*rawPeer
		tokens := []string{`7`, `"7"`, `9007199254740993`, `""`, `-1`}
		for i, token := range tokens {
			p := r.newPeer()
			p.sendRequest("1", protocol.MethodCreate, fmt.Sprintf(`{"name":"s%d","packages":["numpy"],"progressToken":%s}`, i, token))
			if l := p.nextLine(); string(l.ID) != "1" || !strings.Contains(string(l.Result), `"state":"preparing"`) {
				t.Fatalf("the answer does not come first: %s", l.raw)
			}
			if l := p.nextLine(); !l.isProgress() || *l.Params.Progress != 0 || l.Params.Total != nil || l.Params.Message != "preparing numpy" {
				t.Fatalf("the first frame: %s", l.raw)
			}
			peers = append(peers, p)
		}
		for i, p := range peers {
			p.sendRequest("2", protocol.MethodStart, fmt.Sprintf(`{"session":"s%d","input":"env PREPARED","wait_ms":30000}`, i))
		}
		// The job reports all of its work as done, but has not ended yet.
		w.reports <- workers.PreparationProgress{Done: 10, Total: 10, Message: "unpacking"}
		w.reports <- workers.PreparationProgress{Done: 3, Total: 10, Message: "a step back"}
		w.result <- nil
		for i, p := range peers {
			lines := p.readUntilAnswer("2")
			if answer := lines[len(lines)-1]; answer.Error != nil || !strings.Contains(string(answer.Result), "yes") {
				t.Errorf("the turn: %s", answer.raw)
			}
			if all := wantProgress(t, lines, tokens[i]); *all[len(all)-1].Params.Progress < 1 {
				t.Errorf("the last frame: %s", all[len(all)-1].raw)
			}
		}
		if n := w.runs.Load(); n != 1 {
			t.Errorf("the job was run %d times", n)
		}
	})

	// Frames of two sessions for one token could not be told apart.
	t.Run("a token serves one session at a time", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		p := r.newPeer()
		p.sendRequest("1", protocol.MethodCreate, `{"name":"a","packages":["x"],"progressToken":5}`)
		p.readUntilAnswer("1")
		p.waitForProgress("5")
		p.sendRequest("2", protocol.MethodCreate, `{"name":"b","packages":["x"],"progressToken":5}`)
		lines := p.readUntilAnswer("2")
		if answer := lines[len(lines)-1]; answer.Error == nil || !strings.Contains(answer.Error.Message, "progressToken 5") {
			t.Errorf("the second: %s", answer.raw)
		}
		p.sendRequest("3", protocol.MethodCreate, `{"name":"b","packages":["x"],"progressToken":"5"}`)
		p.readUntilAnswer("3") // the string "5" is another token than the number 5
		p.waitForProgress(`"5"`)
		w.result <- nil
		for over := false; !over; {
			l := p.nextLine()
			over = l.isLast() && string(l.Params.Token) == "5"
		}
		p.sendRequest("4", protocol.MethodCreate, `{"name":"c","packages":["y"],"progressToken":5}`)
		for l := p.nextLine(); ; l = p.nextLine() {
			if string(l.ID) == "4" {
				if l.Error != nil {
					t.Errorf("after the end of the first: %s", l.raw)
				}
				break
			}
		}
		w.result <- nil
	})

	t.Run("a late session starts at the current progress", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		first, late := r.newPeer(), r.newPeer()
		first.sendRequest("1", protocol.MethodCreate, `{"name":"a","packages":["x"],"progressToken":"a"}`)
		first.readUntilAnswer("1")
		w.reports <- workers.PreparationProgress{Done: 60, Total: 100, Message: "on the way"}
		for l := first.nextLine(); *l.Params.Progress != 60; l = first.nextLine() {
		}
		late.sendRequest("1", protocol.MethodCreate, `{"name":"b","packages":["x"],"progressToken":"b"}`)
		late.readUntilAnswer("1")
		if l := late.nextLine(); *l.Params.Progress != 60 || *l.Params.Total != 100 || l.Params.Message != "on the way" {
			t.Errorf("got %s", l.raw)
		}
		w.result <- nil
		if l := late.nextLine(); !l.isLast() || *l.Params.Progress != 60 {
			t.Errorf("got %s", l.raw)
		}
		// Progress frames are neither stored nor replayed; the session's timeline has the progress.
		after := r.dial()
		after.OnProgress(func(p protocol.PreparationProgress) { t.Errorf("an unrequested frame: %+v", p) })
		if _, err := after.StartTurn(t.Context(), protocol.StartParams{Session: "b", Input: "print x", WaitMS: processTimeout.Milliseconds()}); err != nil {
			t.Fatal(err)
		}
		stream, err := after.Subscribe(t.Context(), protocol.SubscribeParams{Session: "b"})
		if err != nil {
			t.Fatal(err)
		}
		var last timeline.Preparation
		for _, e := range collectEvents(t, stream, isEndOfTurn(1)) {
			if p, is := e.Body.(timeline.Preparation); is {
				last = p
			}
		}
		if !last.IsDone() || last.Done != 60 {
			t.Errorf("the timeline says %+v", last)
		}
	})

	t.Run("a failure ends the progress before the turn", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		p := r.newPeer()
		p.sendRequest("1", protocol.MethodCreate, `{"name":"main","packages":["x"],"progressToken":1}`)
		p.readUntilAnswer("1")
		p.sendRequest("2", protocol.MethodStart, `{"session":"main","input":"print x"}`)
		w.reports <- workers.PreparationProgress{Message: "looking"}
		w.result <- errors.New("x cannot be prepared: no such thing\nERROR: the last line of the tool")
		lines := p.readUntilAnswer("2")
		wantProgress(t, lines, "1")
		answer := lines[len(lines)-1]
		if answer.Error == nil || answer.Error.Data["kind"] != string(session.KindStart) || !strings.Contains(answer.Error.Message, "the last line of the tool") {
			t.Errorf("the turn: %s", answer.raw)
		}
		p.sendRequest("3", protocol.MethodCreate, `{"name":"main"}`)
		if answer := p.readUntilAnswer("3"); answer[len(answer)-1].Error != nil {
			t.Errorf("the name is not free: %s", answer[len(answer)-1].raw)
		}
	})

	t.Run("limits the rate and always sends the latest state", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		p := r.newPeer()
		p.sendRequest("1", protocol.MethodCreate, `{"name":"main","packages":["x"],"progressToken":1}`)
		p.readUntilAnswer("1")
		begun := time.Now()
		const reports = 20_000
		for i := range int64(reports) {
			w.reports <- workers.PreparationProgress{Done: i + 1}
		}
		var got []receivedLine
		for len(got) == 0 || *got[len(got)-1].Params.Progress < reports {
			got = append(got, p.nextLine())
		}
		if most := 3 + int(time.Since(begun)/(100*time.Millisecond)); len(got) > most {
			t.Errorf("%d frames in %s", len(got), time.Since(begun))
		}
		w.result <- nil
		if l := p.nextLine(); !l.isLast() {
			t.Errorf("got %s", l.raw)
		}
	})

	t.Run("sends nothing without a valid token", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		for i, token := range []string{"", `,"progressToken":null`, `,"progressToken":{"a":1}`, `,"progressToken":[1]`, `,"progressToken":true`} {
			p := r.newPeer()
			p.sendRequest("1", protocol.MethodCreate, fmt.Sprintf(`{"name":"s%d","packages":["x"]%s}`, i, token))
			p.readUntilAnswer("1")
			p.sendRequest("2", protocol.MethodStart, fmt.Sprintf(`{"session":"s%d","input":"print x","wait_ms":30000}`, i))
			w.result <- nil
			if lines := p.readUntilAnswer("2"); len(lines) != 1 || lines[0].Error != nil {
				t.Errorf("%s: got %+v", token, lines)
			}
		}
		// A session without a preparation sends no frames for a token.
		p := r.newPeer()
		p.sendRequest("1", protocol.MethodCreate, `{"name":"plain","progressToken":1}`)
		p.sendRequest("2", protocol.MethodStart, `{"session":"plain","input":"print x","wait_ms":30000}`)
		for _, l := range p.readUntilAnswer("2") {
			if l.isProgress() {
				t.Errorf("got %s", l.raw)
			}
		}
	})
}

func TestPrepare(t *testing.T) {
	t.Run("a queued start can be cancelled without stopping the job", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		p := r.newPeer()
		p.sendRequest("1", protocol.MethodCreate, `{"name":"main","packages":["x"]}`)
		p.readUntilAnswer("1")
		p.sendRequest("3", protocol.MethodStart, `{"session":"main","input":"print never","wait_ms":60000}`)
		if _, err := fmt.Fprintln(p.conn, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`); err != nil {
			t.Fatal(err)
		}
		if l := p.nextLine(); string(l.ID) != "3" || !strings.Contains(l.raw, "-32800") {
			t.Errorf("while it is prepared: %s", l.raw)
		}
		p.sendRequest("4", protocol.MethodStart, fmt.Sprintf(`{"session":"main","input":"print second","wait_ms":%d}`, processTimeout.Milliseconds()))
		w.result <- nil
		l := p.readUntilAnswer("4")
		if answer := l[len(l)-1]; answer.Error != nil || !strings.Contains(string(answer.Result), "second") || strings.Contains(string(answer.Result), "never") {
			t.Errorf("the next: %s", answer.raw)
		}
		if n := w.runs.Load(); n != 1 {
			t.Errorf("it was started %d times", n)
		}
	})

	t.Run("a failure is kept until it is reported", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		c := r.dial()
		create := func() {
			t.Helper()
			s, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "main", Packages: []string{"x"}})
			if err != nil || s.State != session.StatePreparing {
				t.Fatalf("got %+v, %v", s, err)
			}
			w.result <- errors.New("it did not work")
		}
		failed := func() session.Info {
			t.Helper()
			for {
				s, err := c.GetSession(t.Context(), "main")
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
		if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "x"}); session.KindOf(err) != session.KindStart {
			t.Errorf("got %v", err)
		}
		if _, err := c.GetSession(t.Context(), "main"); session.KindOf(err) != session.KindClosed {
			t.Errorf("after it was reported: %v", err)
		}
		create()
		failed()
		create() // replaces the failed session
		failed()
		if err := c.CloseSession(t.Context(), "main"); err != nil {
			t.Error(err)
		}
		if all, err := c.ListSessions(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("got %+v, %v", all, err)
		}
	})

	t.Run("a job ends with the last session that needs it", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		a, b := r.newPeer(), r.newPeer()
		a.sendRequest("1", protocol.MethodCreate, `{"name":"a","packages":["x"],"progressToken":1}`)
		a.readUntilAnswer("1")
		b.sendRequest("1", protocol.MethodCreate, `{"name":"b","packages":["x"],"progressToken":2}`)
		b.readUntilAnswer("1")
		w.reports <- workers.PreparationProgress{Done: 1} // the job is running
		a.sendRequest("2", protocol.MethodClose, `{"session":"a"}`)
		lines := a.readUntilAnswer("2")
		if lines[len(lines)-1].Error != nil {
			t.Errorf("closing: %s", lines[len(lines)-1].raw)
		}
		wantProgress(t, lines, "1")
		w.reports <- workers.PreparationProgress{Done: 2} // the job is still running
		b.sendRequest("2", protocol.MethodStart, `{"session":"b","input":"print x"}`)
		b.sendRequest("3", protocol.MethodClose, `{"session":"b"}`)
		lines = b.readUntilAnswer("3")
		wantProgress(t, lines, "2")
		for len(lines) > 0 && string(lines[0].ID) != "2" {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			lines = b.readUntilAnswer("2")
		}
		if e := lines[0].Error; e == nil || e.Data["kind"] != string(session.KindClosed) {
			t.Errorf("the turn: %s", lines[0].raw)
		}
		if err := <-w.ended; err == nil || !strings.Contains(err.Error(), "no caller waits") {
			t.Errorf("the job ended with %v", err)
		}
	})

	t.Run("other calls do not block during a preparation", func(t *testing.T) {
		r, w := newPreparingDaemon(t)
		c := r.dial()
		if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "main", Packages: []string{"x"}}); err != nil {
			t.Fatal(err)
		}
		if reply, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", WaitMS: 1}); err != nil || reply.State != session.StatePreparing {
			t.Errorf("a wait: %+v, %v", reply, err)
		}
		if reply, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main"}); err != nil || reply.State != session.StatePreparing {
			t.Errorf("a poll: %+v, %v", reply, err)
		}
		if i, err := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "main", Turn: 1}); err != nil || i.Result != "not running" {
			t.Errorf("an interrupt: %+v, %v", i, err)
		}
		stream, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		collectEvents(t, stream, func(e timeline.Event) bool { return e.Body == timeline.Preparation{Name: "x"} })
		if all, err := c.ListSessions(t.Context()); err != nil || len(all) != 1 || all[0].State != session.StatePreparing || all[0].Packages[0] != "x" || time.Since(all[0].OpenedAt) > processTimeout {
			t.Errorf("the list: %+v, %v", all, err)
		}
		if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "main"}); session.KindOf(err) != session.KindExists {
			t.Errorf("the same name: %v", err)
		}
		if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Packages: []string{"bad"}}); session.KindOf(err) != "invalid_params" {
			t.Errorf("an invalid package: %v", err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", WaitMS: processTimeout.Milliseconds()})
			waiting <- err
		}()
		w.result <- nil
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	})
}

func TestPrepare_SpecRunsOnce(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	goOn := make(chan struct{})
	r := startDaemon(t, func(o *daemon.Options) {
		plain := o.FindSpec
		o.FindSpec = func(p protocol.CreateParams) (workers.Spec, error) {
			s, err := plain(p)
			s.Preparations = []workers.Preparation{{Key: "shim", Run: func(_ context.Context, report func(workers.PreparationProgress)) (workers.PreparationResult, error) {
				runs.Add(1)
				report(workers.PreparationProgress{Message: "compiling"})
				<-goOn
				return workers.PreparationResult{Files: map[string][]byte{"made": []byte("x")}}, nil
			}}}
			return s, err
		}
	})
	a, b := r.newPeer(), r.newPeer()
	for i, p := range []*rawPeer{a, b} {
		p.sendRequest("1", protocol.MethodCreate, fmt.Sprintf(`{"name":"s%d","progressToken":1}`, i))
		p.readUntilAnswer("1")
		for l := p.nextLine(); l.Params.Message != "compiling"; l = p.nextLine() {
		}
	}
	close(goOn)
	for i, p := range []*rawPeer{a, b} {
		p.sendRequest("2", protocol.MethodStart, fmt.Sprintf(`{"session":"s%d","input":"print x","wait_ms":30000}`, i))
		lines := p.readUntilAnswer("2")
		wantProgress(t, lines, "1")
		if answer := lines[len(lines)-1]; answer.Error != nil {
			t.Error(answer.raw)
		}
		p.sendRequest("3", protocol.MethodReset, fmt.Sprintf(`{"session":"s%d"}`, i))
		p.readUntilAnswer("3")
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("it was prepared %d times", n)
	}
}

func TestPrepare_KeepsDaemonAlive(t *testing.T) {
	t.Parallel()
	w := newFakeJob()
	clock := startWithClock(t, func(o *daemon.Options) { withPreparation(o, w.run) })
	p := clock.newPeer()
	p.sendRequest("1", protocol.MethodCreate, `{"name":"main","packages":["x"],"progressToken":1}`)
	p.readUntilAnswer("1")
	clock.wantRunningAt(clock.now().Add(2 * idleTimeout))
	select {
	case w.reports <- workers.PreparationProgress{Done: 1}:
	case err := <-w.ended:
		t.Fatalf("the preparation was cancelled: %v", err)
	}
	clock.cancel()
	<-w.ended
}
