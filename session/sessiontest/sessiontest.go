// Package sessiontest tests implementations of session.Session. Each implementation runs the same
// suite:
//
//	func TestSession(t *testing.T) {
//		sessiontest.Run(t, func(t *testing.T, prepare ...workers.Preparation) session.Session { … })
//	}
//
// The sessions run the worker of internal/testkit/fakeworker, and the tests contain its commands.
//
// It starts no goroutines except those of a test.
package sessiontest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A promise is a statement about all sessions, and its test.
type promise struct {
	name string
	test func(*testing.T, session.Session)
}

// Run runs the suite. open opens a separate session for each test, and closes it after the test.
// The worker may still be starting. The Spec of the session has the preparations in prepare.
func Run(t *testing.T, open func(t *testing.T, prepare ...workers.Preparation) session.Session) {
	for _, promise := range append(slices.Concat(terminalPromises(), runPromises(), queuePromises()), []promise{
		{"a turn ends when the worker reports it, and its reply has its text", testTurnEnds},
		{"turns are identified by number, also after their end", testTurnNumbers},
		{"a second input is refused at once, and the error says what runs", testBusy},
		{"an input request is shown until it is answered, and a late answer is stale", testInputRequest},
		{"end of file and surplus input reach later input requests", testEndOfFile},
		{"an interrupt ends only its turn", testInterrupt},
		{"authors are recorded with their input", testAuthors},
		{"a wait that times out does not affect the turn, and a cursor continues", testPollAndCursor},
		{"a context that ends is an error, and the turn continues", testContexts},
		{"events are past ones, then live ones, without gaps", testEvents},
		{"events end with an error when the session is closed", testEventsEnd},
		{"a worker that exits ends its turn, and the next input starts another", testWorkerExit},
		{"the first turn of a new worker reports once why the previous one ended", testRestartNotice},
		{"reset starts a new generation, even during a turn", testReset},
		{"the rendered output can be searched and read by line", testOutput},
		{"files are put whole into the working directory, listed, read and removed", testFiles},
		{"windows of any size add up to the whole timeline, in both directions", testReadWindows},
		{"the turn index summarizes each turn, also while it runs", testTurnSummaries},
		{"a result follows its echo, and a display has its ID", testDisplays},
		{"comms are merged, and are not events", testComms},
		{"code may exit only where that is allowed", testExit},
		{"a dialect reaches the worker only from the caller that asks for it", testDialects},
		{"a silent turn runs, and readers do not see it", testSilentTurns},
		{"data that a window leaves out is read in parts by its digest", testBlobs},
		{"a search finds lines of output and of inputs, in parts, but no secret", testSearch},
		{"the text of a turn is copied as it arrives, and its end has the error", testCopy},
		{"a turn is followed before it has started: after the start, an exit, a reset", testFollowBeforeStart},
		{"the end of a turn says why its worker ended", testExitReason},
		{"a turn starts without a callback", testStartWithoutCallback},
		{"queries are refused while a turn runs", testQueries},
		{"access is granted only to a session with a sandbox, and only an open request is answered", testGrants},
		{"a closed session returns ErrClosed", testClosed},
		{"values survive a JSON round trip", testJSON},
	}...) {
		t.Run(promise.name, func(t *testing.T) {
			s := open(t)
			t.Parallel()
			promise.test(t, s)
		})
	}
	runPreparing(t, open)
}

func testOutput(t *testing.T, s session.Session) {
	runCode(t, s, "print apple\nprint pear\nprint apricot")
	found, err := s.Output(withTimeout(t), session.OutputQuery{Grep: "^ap"})
	if err != nil || len(found.Lines) != 2 || found.Lines[1].Text != "apricot" || found.Total < 3 {
		t.Fatalf("got %+v, %v", found, err)
	}
	at := found.Lines[0].Number
	lines, err := s.Output(withTimeout(t), session.OutputQuery{From: at, To: at + 1})
	if err != nil || len(lines.Lines) != 2 || lines.Lines[1] != (timeline.Line{Number: at + 1, Text: "pear"}) {
		t.Errorf("got %+v, %v", lines, err)
	}
	if count, err := s.Output(withTimeout(t), session.OutputQuery{}); err != nil || count.Total != found.Total {
		t.Errorf("got %+v, %v", count, err)
	}
	var whole strings.Builder
	err = session.CopyFile(&whole, func(offset int64) (session.FilePart, error) {
		return s.File(withTimeout(t), session.OwnFiles+timeline.OutputName, offset, 7)
	})
	if err != nil || !strings.Contains(whole.String(), "apple\npear\napricot\n") {
		t.Errorf("its file: %q, %v", &whole, err)
	}
	for _, bad := range []session.OutputQuery{{Grep: "("}, {Grep: "a", Max: session.MaxMatches + 1}, {From: 3, To: 2}} {
		if _, err := s.Output(withTimeout(t), bad); session.KindOf(err) != session.KindInvalid {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
}

func testQueries(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	if _, err := s.Complete(withTimeout(t), "pr", 2); !errors.Is(err, session.ErrBusy) {
		t.Errorf("complete: got %v", err)
	}
	if _, err := s.Inspect(withTimeout(t), "print", 0); !errors.Is(err, session.ErrBusy) {
		t.Errorf("inspect: got %v", err)
	}
	if _, err := s.TablePage(withTimeout(t), session.TableQuery{Handle: "t1", Count: 1}); !errors.Is(err, session.ErrBusy) {
		t.Errorf("rows of a table: got %v", err)
	}
	if _, err := s.Parse(withTimeout(t), "print"); !errors.Is(err, session.ErrBusy) {
		t.Errorf("parse: got %v", err)
	}
	_, _ = s.Interrupt(withTimeout(t), turn)
	waitTurn(t, s, turn)
	found, err := s.Inspect(withTimeout(t), "print", 5)
	if err != nil || !found.Found || found.Data["text/plain"] != "the command print" {
		t.Errorf("inspect: got %+v, %v", found, err)
	}
	if none, err := s.Inspect(withTimeout(t), "nothing", 0); err != nil || none.Found {
		t.Errorf("inspect of nothing: got %+v, %v", none, err)
	}
	testTablePage(t, s)
	if c, err := s.Complete(withTimeout(t), "pri", 3); err != nil || len(c.Matches) == 0 || c.Matches[0] != "print" {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := s.Complete(withTimeout(t), "hang", 4); session.KindOf(err) != session.KindNoAnswer {
		t.Errorf("a slow completion: got %+v, %v", c, err)
	}
}

func testTablePage(t *testing.T, s session.Session) {
	page, err := s.TablePage(withTimeout(t), session.TableQuery{Handle: "t1", Count: session.MaxTableRows})
	if err != nil || page.Table == nil || page.Table.Rows[0][0] != "1" || page.Table.Columns[0].Align != session.AlignRight {
		t.Errorf("rows of a table: got %+v, %v", page, err)
	}
	if page, err := s.TablePage(withTimeout(t), session.TableQuery{Handle: "t2", Count: 1}); err != nil || page.Table != nil {
		t.Errorf("rows of a table that is gone: got %+v, %v", page, err)
	}
	for _, bad := range []session.TableQuery{
		{Handle: "t1"}, {Count: 1}, {Handle: "t1", Count: session.MaxTableRows + 1}, {Handle: "t1", Count: 1, From: -1},
		{Handle: "t1", Count: 1, Sort: &session.TableSort{Column: session.MaxTableColumns}},
		{Handle: "t1", Count: 1, Find: strings.Repeat("x", session.MaxFindBytes+1)},
	} {
		if _, err := s.TablePage(withTimeout(t), bad); session.KindOf(err) != session.KindInvalid {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
}

func testDisplays(t *testing.T, s session.Session) {
	r := runCode(t, s, "result 42\ndisplay bar 10%\ndisplay +bar 20%\nclear\ntrace boom")
	var got []timeline.Body
	for _, e := range r.Events {
		switch b := e.Body.(type) {
		case timeline.Text, timeline.Display, timeline.OutputCleared:
			got = append(got, b)
		}
	}
	bundle := func(text string) map[string][]byte {
		return map[string][]byte{"text/plain": []byte(text), "text/html": []byte("<b>" + text + "</b>")}
	}
	want := []timeline.Body{
		timeline.Text{Data: []byte("42\r\n"), Kind: timeline.TextResult, Begins: true},
		timeline.Display{Data: bundle("42"), Result: true},
		timeline.Display{Data: bundle("10%"), ID: "bar"},
		timeline.Display{Data: bundle("20%"), ID: "bar", Update: true},
		timeline.OutputCleared{},
		timeline.Text{Stream: timeline.Stderr, Data: []byte("boom\r\n"), Kind: timeline.TextTraceback},
	}
	for i := range got {
		if text, ok := got[i].(timeline.Text); ok && bytes.HasSuffix(text.Data, []byte("\n")) && !bytes.HasSuffix(text.Data, []byte("\r\n")) {
			text.Data = append(bytes.TrimSuffix(text.Data, []byte("\n")), "\r\n"...) // without a terminal's newline
			got[i] = text
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if text := r.Text(); text != "42\n20%\nboom" {
		t.Errorf("a model reads %q", text)
	}
}

func testSilentTurns(t *testing.T, s session.Session) {
	before := runCode(t, s, "silent\nprint seen").Next
	turn, err := s.As("tool").SubmitSilent(withTimeout(t), "silent\nresult 1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Wait(withTimeout(t), turn, &session.WaitOptions{After: before})
	if err != nil || r.Outcome != timeline.OutcomeOK {
		t.Fatalf("got %+v, %v", r, err)
	}
	var text strings.Builder
	for _, e := range r.Events {
		if !e.IsUnseen() || e.Turn != turn {
			t.Errorf("%s is not unseen: %+v", e.Type(), e)
		}
		if b, ok := e.Body.(timeline.Text); ok {
			text.Write(b.Data)
		}
	}
	if got := strings.Fields(text.String()); !slices.Equal(got, []string{"true", "1"}) || r.Text() != "" {
		t.Errorf("it printed %q, and a model reads %q", got, r.Text())
	}
	if r := runCode(t, s, "silent"); r.Text() != "false\n" {
		t.Errorf("the turn after it: got %q", r.Text())
	}
}

func testExit(t *testing.T, s session.Session) {
	ctx := withTimeout(t)
	for _, c := range []struct {
		name   string
		submit func(context.Context, string) (uint64, error)
		want   string
	}{
		{"Submit", s.Submit, "true"},
		{"SubmitMayExit", s.SubmitMayExit, "false"},
		{"As, SubmitMayExit", s.As("ada").SubmitMayExit, "false"},
		{"As, Submit", s.As("ada").Submit, "true"},
		{"SubmitSilent", s.SubmitSilent, "true"},
	} {
		if _, err := s.Wait(ctx, 0, nil); err != nil { // the start-up
			t.Fatal(err)
		}
		turn, err := c.submit(ctx, "noexit")
		if err != nil {
			t.Fatal(err)
		}
		r := waitTurn(t, s, turn)
		var text strings.Builder
		for _, e := range r.Events {
			if b, ok := e.Body.(timeline.Text); ok {
				text.Write(b.Data)
			}
		}
		if got := strings.TrimSpace(text.String()); got != c.want {
			t.Errorf("%s: the worker got %q, want %q", c.name, got, c.want)
		}
	}
}

func testDialects(t *testing.T, s session.Session) {
	ctx := withTimeout(t)
	if _, err := s.Wait(ctx, 0, nil); err != nil { // the start-up
		t.Fatal(err)
	}
	notebook := s.InDialect(session.DialectNotebook)
	for _, c := range []struct {
		name    string
		session session.Session
		want    string
	}{
		{"the session", s, "none"},
		{"InDialect", notebook, "notebook"},
		{"InDialect, As", notebook.As("ada"), "notebook"},
		{"As, InDialect", s.As("ada").InDialect(session.DialectNotebook), "notebook"},
		{"back in the plain language", notebook.InDialect(""), "none"},
		{"As", s.As("ada"), "none"},
	} {
		if r := runCode(t, c.session, "dialect"); !strings.HasSuffix("\n"+r.Text(), "\n"+c.want+"\n") {
			t.Errorf("%s: the worker got %q, want %q", c.name, r.Text(), c.want)
		}
		parsed := session.ParseInvalid
		if c.want == "notebook" {
			parsed = session.ParseComplete
		}
		if got, err := c.session.Parse(ctx, "print?"); got != parsed || err != nil {
			t.Errorf("%s: parsed as %q, %v, want %q", c.name, got, err, parsed)
		}
	}
	if got := notebook.As("ada").Author(); got != "ada" {
		t.Errorf("got the author %q", got)
	}
	submits := map[string]func(context.Context, string) (uint64, error){
		"Submit": notebook.Submit, "SubmitSilent": notebook.SubmitSilent, "SubmitMayExit": notebook.SubmitMayExit,
	}
	if q, ok := notebook.(session.TurnQueuer); ok {
		submits["SubmitQueued"] = q.SubmitQueued
	}
	for name, submit := range submits {
		turn, err := submit(ctx, "dialect")
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, e := range waitTurn(t, s, turn).Events {
			if b, ok := e.Body.(timeline.Text); ok {
				text.Write(b.Data)
			}
		}
		if got := strings.TrimSpace(text.String()); got != "notebook" {
			t.Errorf("%s: the worker got %q", name, got)
		}
	}
	unknown := s.InDialect("basic")
	if _, err := unknown.Submit(ctx, "print x"); session.KindOf(err) != session.KindInvalid {
		t.Errorf("submit in an unknown dialect: got %v", err)
	}
	if _, err := unknown.Parse(ctx, "print x"); session.KindOf(err) != session.KindInvalid {
		t.Errorf("parse in an unknown dialect: got %v", err)
	}
}

func testGrants(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "wait name? ")
	r := waitTurn(t, s, turn)
	for _, bad := range []session.Grant{{}, {Always: true}, {Write: "/data", Host: "example.org"}, {Read: "/data", Write: "/data"}} {
		if err := s.Allow(withTimeout(t), bad); session.KindOf(err) != session.KindInvalid {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
	without := []session.Grant{{Write: "/"}, {Read: "/data"}, {Host: "example.org"}, {Write: "/data", Always: true}}
	if readInfo(t, s).Sandbox != "" {
		without = nil // it can be granted more
	}
	for _, g := range without {
		if err := s.As("ada").Allow(withTimeout(t), g); !errors.Is(err, session.ErrUnsupported) {
			t.Errorf("%+v: got %v", g, err)
		}
	}
	if places, err := s.Destinations(withTimeout(t)); err != nil || places == nil || len(places) > 0 {
		t.Errorf("reached: got %v, %v", places, err)
	}
	if shown, err := s.Visibility(withTimeout(t)); err != nil || shown.Paths == nil || shown.WithheldVariables == nil || len(shown.Paths) > 0 && readInfo(t, s).Sandbox == "" {
		t.Errorf("shown: got %+v, %v", shown, err)
	}
	for _, ok := range []bool{true, false} { // the ID of an input request is not that of a permission
		if err := s.As("ada").AnswerPermission(withTimeout(t), uint64(r.InputRequest.ID), ok); !errors.Is(err, session.ErrStale) {
			t.Errorf("got %v", err)
		}
	}
	if i := readInfo(t, s); i.InputRequest == nil || i.InputRequest.ID != r.InputRequest.ID || len(i.Grants) > 0 {
		t.Errorf("got %+v", i)
	}
	_, _ = s.Interrupt(withTimeout(t), turn)
	waitTurn(t, s, turn)
}

func testClosed(t *testing.T, s session.Session) {
	runCode(t, s, "print one")
	if err := s.Close(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(withTimeout(t), "print x"); !errors.Is(err, session.ErrClosed) {
		t.Errorf("submit: got %v", err)
	}
	if _, err := s.Answer(withTimeout(t), 1, session.Input{EOF: true}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("answer: got %v", err)
	}
	if err := s.Allow(withTimeout(t), session.Grant{Write: "/data"}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("allow: got %v", err)
	}
	if err := s.AnswerPermission(withTimeout(t), 1, false); !errors.Is(err, session.ErrClosed) {
		t.Errorf("permit: got %v", err)
	}
	if err := s.Reset(withTimeout(t)); !errors.Is(err, session.ErrClosed) {
		t.Errorf("reset: got %v", err)
	}
}

func testJSON(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "print one\nerr two\nimage\nwait name? ")
	r := waitTurn(t, s, turn)
	i := readInfo(t, s)
	for _, v := range []any{&r, &i} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		again := reflect.New(reflect.TypeOf(v).Elem())
		if err := json.Unmarshal(text, again.Interface()); err != nil {
			t.Fatal(err)
		}
		twice, err := json.Marshal(again.Interface())
		if err != nil || string(twice) != string(text) {
			t.Errorf("%v: got %s, want %s", err, twice, text)
		}
	}
	_, _ = s.Interrupt(withTimeout(t), turn)
	waitTurn(t, s, turn)
}
