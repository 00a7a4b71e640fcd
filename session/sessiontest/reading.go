package sessiontest

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// readAllEvents returns all events so far.
func readAllEvents(t *testing.T, s session.Session) []timeline.Event {
	t.Helper()
	end := readInfo(t, s).LastSeq
	var events []timeline.Event
	for e, err := range s.Events(withTimeout(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if events = append(events, e); e.Seq >= end {
			break
		}
	}
	return events
}

func readPage(t *testing.T, s session.Session, q session.ReadQuery) session.EventPage {
	t.Helper()
	p, err := s.Read(withTimeout(t), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return p
}

func eventSeqs(events []timeline.Event) []timeline.Seq {
	var out []timeline.Seq
	for _, e := range events {
		out = append(out, e.Seq)
	}
	return out
}

func testReadWindows(t *testing.T, s session.Session) {
	first := runCode(t, s, "print one\nimage\nprint two")
	runCode(t, s, "error ValueError bad")
	want := readAllEvents(t, s)
	for limit := 1; limit < 8; limit++ {
		var up, down []timeline.Event
		for more, after := true, timeline.Seq(0); more; {
			p := readPage(t, s, session.ReadQuery{After: after, Limit: limit})
			up, after, more = append(up, p.Events...), p.Last, p.HasLater
			if len(p.Events) > limit {
				t.Errorf("got %+v", p)
			}
		}
		for more, before := true, want[len(want)-1].Seq+1; more; {
			p := readPage(t, s, session.ReadQuery{Before: before, Limit: limit})
			down, before, more = append(p.Events, down...), p.First, p.HasEarlier
		}
		if !reflect.DeepEqual(eventSeqs(up), eventSeqs(want)) || !reflect.DeepEqual(eventSeqs(down), eventSeqs(want)) {
			t.Errorf("limit %d: got %v and %v, want %v", limit, eventSeqs(up), eventSeqs(down), eventSeqs(want))
		}
	}
	turn := readPage(t, s, session.ReadQuery{Turn: first.Turn})
	if text := render.Events(turn.Events, nil).Text(); turn.HasEarlier || turn.HasLater || text != first.Text() {
		t.Errorf("got %q, want %q", text, first.Text())
	}
	for _, e := range turn.Events {
		if e.Turn != first.Turn {
			t.Errorf("got %+v", e)
		}
	}
	newest := readPage(t, s, session.ReadQuery{Backward: true, Limit: 1})
	if newest.Last != newest.End || !newest.HasEarlier || newest.HasLater {
		t.Errorf("got %+v", newest)
	}
	if p := readPage(t, s, session.ReadQuery{After: newest.End}); p.Events == nil || len(p.Events) > 0 || p.HasLater {
		t.Errorf("after the end: got %+v", p)
	}
	if _, err := s.Read(withTimeout(t), session.ReadQuery{Turn: 99}); session.KindOf(err) != session.KindStale {
		t.Errorf("a turn that never existed: got %v", err)
	}
	for _, bad := range []session.ReadQuery{{Limit: -1}, {Limit: session.MaxReadEvents + 1}, {Bytes: -1}, {InlineBytes: session.MaxInlineBytes + 1}} {
		if _, err := s.Read(withTimeout(t), bad); session.KindOf(err) != session.KindInvalid {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
}

func testTurnSummaries(t *testing.T, s session.Session) {
	runCode(t, s.As("ada"), "print one\nimage\nprint two")
	runCode(t, s, "error ValueError bad")
	turn := submitCode(t, s, "\nprint up\nsleep")
	waitEvent(t, s, 0, func(e timeline.Event) bool { return e.Turn == turn && hasText("up")(e) })
	o, err := s.TurnSummaries(withTimeout(t), session.TurnSummariesQuery{From: 1})
	if err != nil || len(o.Turns) != 3 || o.HasEarlier || o.HasLater {
		t.Fatalf("got %+v, %v", o, err)
	}
	for i, want := range []timeline.TurnSummary{
		{Turn: 1, Author: "ada", Code: "print one", CodeLines: 3, Lines: 2, Displays: 1, Outcome: timeline.OutcomeOK},
		{Turn: 2, Code: "error ValueError bad", CodeLines: 1, Outcome: timeline.OutcomeError, Error: "ValueError"},
		{Turn: 3, Code: "print up", CodeLines: 3, Lines: 1},
	} {
		got := o.Turns[i]
		if i > 0 && got.First != o.Turns[i-1].Last+1 {
			t.Errorf("turn %d begins with event %d, and the previous one ends with %d", got.Turn, got.First, o.Turns[i-1].Last)
		}
		got.Generation, got.First, got.Last, got.At, got.Bytes, got.Elapsed = 0, 0, 0, want.At, 0, 0
		if got.Error != "" {
			got.Lines = 0 // the lines of an error depend on the runtime
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	_, _ = s.Interrupt(withTimeout(t), turn)
	waitTurn(t, s, turn)
	after, err := s.TurnSummaries(withTimeout(t), session.TurnSummariesQuery{After: o.End})
	if err != nil || len(after.Turns) != 1 || after.Turns[0].Turn != turn || after.Turns[0].Outcome != timeline.OutcomeInterrupted {
		t.Errorf("what is new: got %+v, %v", after, err)
	}
	newest, err := s.TurnSummaries(withTimeout(t), session.TurnSummariesQuery{Backward: true, Limit: 2})
	if err != nil || len(newest.Turns) != 2 || newest.Turns[1].Turn != turn || !newest.HasEarlier {
		t.Errorf("the newest: got %+v, %v", newest, err)
	}
	if none, err := s.TurnSummaries(withTimeout(t), session.TurnSummariesQuery{From: 99}); err != nil || none.Turns == nil || len(none.Turns) > 0 {
		t.Errorf("got %+v, %v", none, err)
	}
	if _, err := s.TurnSummaries(withTimeout(t), session.TurnSummariesQuery{Limit: session.MaxSummaries + 1}); session.KindOf(err) != session.KindInvalid {
		t.Errorf("got %v", err)
	}
}

func testBlobs(t *testing.T, s session.Session) {
	text := strings.Repeat("0123456789", 5000)
	r := runCode(t, s, "display a "+text+"\ndisplay b "+text+"\ndisplay c small")
	var digests []string
	for _, e := range readPage(t, s, session.ReadQuery{Turn: r.Turn}).Events {
		d, ok := e.Body.(timeline.Display)
		if !ok {
			continue
		}
		left := d.Omitted["text/plain"]
		if large := d.ID != "c"; large != (left.Bytes == int64(len(text)) && left.Digest != "") || large == (len(d.Data) > 0) {
			t.Errorf("got %+v", d)
		}
		if left.Digest != "" {
			digests = append(digests, left.Digest)
		}
	}
	if len(digests) != 2 || digests[0] != digests[1] {
		t.Fatalf("equal data has the digests %q", digests)
	}
	var got []byte
	for len(got) < len(text) {
		p, err := s.Blob(withTimeout(t), digests[0], int64(len(got)), 7000)
		if err != nil || p.Bytes != int64(len(text)) || p.Offset != int64(len(got)) || len(p.Data) == 0 || len(p.Data) > 7000 {
			t.Fatalf("at %d: got %d bytes of %d from %d, %v", len(got), len(p.Data), p.Bytes, p.Offset, err)
		}
		got = append(got, p.Data...)
	}
	if string(got) != text {
		t.Error("the parts add up to something else")
	}
	if p, err := s.Blob(withTimeout(t), digests[0], 0, 0); err != nil || string(p.Data) != text {
		t.Errorf("in one part: got %d bytes, %v", len(p.Data), err)
	}
	if p, err := s.Blob(withTimeout(t), digests[0], int64(len(text)), 10); err != nil || len(p.Data) > 0 {
		t.Errorf("after the end: got %d bytes, %v", len(p.Data), err)
	}
	whole := readPage(t, s, session.ReadQuery{Turn: r.Turn, InlineBytes: 1 << 20})
	shown := 0
	for _, e := range whole.Events {
		if d, ok := e.Body.(timeline.Display); ok && d.ID != "c" && string(d.Data["text/plain"]) == text {
			shown++
		}
	}
	if shown != 2 {
		t.Errorf("a window that includes all data: %d displays", shown)
	}
	if _, err := s.Blob(withTimeout(t), strings.Repeat("0", 64), 0, 10); !errors.Is(err, session.ErrNoBlob) {
		t.Errorf("an unknown digest: got %v", err)
	}
	for _, bad := range []func() error{
		func() error { _, err := s.Blob(withTimeout(t), "../events", 0, 1); return err },
		func() error { _, err := s.Blob(withTimeout(t), digests[0], -1, 1); return err },
		func() error { _, err := s.Blob(withTimeout(t), digests[0], 0, session.MaxPartBytes+1); return err },
	} {
		if err := bad(); session.KindOf(err) != session.KindInvalid {
			t.Errorf("got %v", err)
		}
	}
}

func testSearch(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "print one pear\nprint two PEARS\nsecret key? ")
	r := waitTurn(t, s, turn)
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("hush hush pear\n")}); err != nil {
		t.Fatal(err)
	}
	waitTurn(t, s, turn)
	runCode(t, s, "print a fig")
	find := func(q session.SearchQuery) []timeline.Match {
		t.Helper()
		var all []timeline.Match
		for calls := 0; ; calls++ {
			f, err := s.Search(withTimeout(t), q)
			if err != nil || f.Matches == nil || q.Limit > 0 && len(f.Matches) > q.Limit || calls > 100 {
				t.Fatalf("%+v: got %+v, %v", q, f, err)
			}
			all = append(all, f.Matches...)
			if f.Next == "" {
				return all
			}
			q.From = f.Next
		}
	}
	for _, limit := range []int{0, 1, 2} {
		found := find(session.SearchQuery{Text: "Pear", Limit: limit})
		var texts []string
		for _, m := range found {
			texts = append(texts, m.Text)
			if m.Turn != turn || m.Input != strings.HasPrefix(m.Text, "print") || m.Input == (m.Line > 0) {
				t.Errorf("got %+v", m)
			}
		}
		if want := []string{"print one pear", "print two PEARS", "one pear", "two PEARS"}; !reflect.DeepEqual(texts, want) {
			t.Errorf("limit %d: got %q", limit, texts)
		}
	}
	if found := find(session.SearchQuery{Regexp: "^a fi[fg]"}); len(found) != 1 || found[0].Turn != turn+1 {
		t.Errorf("got %+v", found)
	}
	if found := find(session.SearchQuery{Text: "hush"}); len(found) > 0 {
		t.Errorf("a secret was found: %+v", found)
	}
	for _, bad := range []session.SearchQuery{{}, {Text: "a", Regexp: "b"}, {Regexp: "("}, {Text: "a", From: "x"}, {Text: "a", Limit: session.MaxSearchMatches + 1}} {
		if _, err := s.Search(withTimeout(t), bad); session.KindOf(err) != session.KindInvalid {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
}

func testCopy(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "print before\nwait name? \nerr problem\nerror ValueError bad news")
	reader, writer := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan timeline.TurnEnded, 1)
	go func() {
		end, err := session.CopyOutput(withTimeout(t), s, turn, writer, &stderr)
		_ = writer.CloseWithError(err)
		ended <- end
	}()
	first := make([]byte, len("before\n"))
	if _, err := io.ReadFull(reader, first); err != nil || string(first) != "before\n" { // while the turn waits
		t.Fatalf("got %q, %v", first, err)
	}
	r := waitTurn(t, s, turn)
	if _, ok := r.End(); ok || r.InputRequest == nil {
		t.Fatalf("got %+v", r)
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("Ada\n")}); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(reader)
	end := <-ended
	if err != nil || !strings.Contains(string(rest), "Ada") || !strings.Contains(stderr.String(), "problem") || strings.Contains(string(rest), "problem") {
		t.Errorf("got %q and %q, %v", rest, stderr.String(), err)
	}
	again, ok := waitTurn(t, s, turn).End()
	if end.Outcome != timeline.OutcomeError || end.Name != "ValueError" || end.Message != "bad news" || !ok || again != end {
		t.Errorf("got %+v and %+v", end, again)
	}

	turn = submitCode(t, s, "bulk 1000000") // a reply would shorten it
	waitTurn(t, s, turn)
	runCode(t, s, "print later")
	var whole bytes.Buffer
	if end, err := session.CopyOutput(withTimeout(t), s, turn, &whole, nil); err != nil || end.Outcome != timeline.OutcomeOK || whole.Len() < 1_000_000 || strings.Contains(whole.String(), "later") {
		t.Errorf("a turn that is over: got %d bytes, %+v, %v", whole.Len(), end, err)
	}
	if _, err := session.CopyOutput(withTimeout(t), s, turn, writer, nil); !errors.Is(err, io.ErrClosedPipe) { // a broken writer
		t.Errorf("got %v", err)
	}
	for _, none := range []uint64{0, 99} {
		if _, err := session.CopyOutput(withTimeout(t), s, none, nil, nil); err == nil {
			t.Errorf("turn %d was copied", none)
		}
	}
}
