package kernel

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestMessages(t *testing.T) {
	t.Parallel()

	t.Run("counts cursor positions in code points", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			content string
			cursor  int
			bytes   int
		}{
			{`{"code": "😀ü.x", "cursor_pos": 0}`, 0, 0},
			{`{"code": "😀ü.x", "cursor_pos": 2}`, 2, 6},
			{`{"code": "😀ü.x", "cursor_pos": 4}`, 4, 8},
			{`{"code": "😀ü.x", "cursor_pos": 99}`, 4, 8},
			{`{"code": "😀ü.x", "cursor_pos": -7}`, 4, 8},
			{`{"code": "😀ü.x"}`, 4, 8},
			{`{}`, 0, 0},
			{`{"code": 5}`, 0, 0},
		} {
			p := parsePosition(&peerRequest{Message: wire.Message{Content: json.RawMessage(c.content)}})
			if p.Cursor != c.cursor || p.byteOffset() != c.bytes || p.codePoints(p.byteOffset()) != c.cursor {
				t.Errorf("%s: got %d, %d bytes, and %d again", c.content, p.Cursor, p.byteOffset(), p.codePoints(p.byteOffset()))
			}
		}
	})

	t.Run("sends only whole characters", func(t *testing.T) {
		t.Parallel()
		text := "aü€😀"
		for n := range len(text) + 1 {
			cut := completeLength([]byte(text[:n]))
			for _, r := range text[:cut] {
				if r == '\uFFFD' {
					t.Errorf("%q: got %q, which ends in a broken character", text[:n], text[:cut])
				}
			}
			if n-cut > 3 {
				t.Errorf("%q: got %d bytes withheld", text[:n], n-cut)
			}
		}
		for _, broken := range []string{"\xff", "a\x80\x80\x80\x80", "\xc3("} {
			if completeLength([]byte(broken)) != len(broken) {
				t.Errorf("%q: got bytes withheld, want all of it", broken)
			}
		}
	})

	t.Run("answers history queries", func(t *testing.T) {
		t.Parallel()
		all := []historyInput{
			{session: 1, line: 1, code: "a = 1"}, {session: 1, line: 2, code: "b = 2"}, {session: 2, line: 5, code: "a = 1"}, {session: 2, line: 6, code: "c\n= 3"},
		}
		for _, c := range []struct {
			query string
			lines []uint64
		}{
			{`{"hist_access_type": "tail", "n": 2}`, []uint64{5, 6}},
			{`{"hist_access_type": "tail", "n": -4}`, nil},
			{`{"hist_access_type": "tail"}`, []uint64{1, 2, 5, 6}},
			{`{"hist_access_type": "range", "session": 0}`, []uint64{5, 6}},
			{`{"hist_access_type": "range", "session": -1, "start": 2}`, []uint64{2}},
			{`{"hist_access_type": "range", "session": 1, "start": 1, "stop": 2}`, []uint64{1}},
			{`{"hist_access_type": "range", "session": -9223372036854775808}`, nil},
			{`{"hist_access_type": "search", "pattern": "a*"}`, []uint64{1, 5}},
			{`{"hist_access_type": "search", "pattern": "a*", "unique": true}`, []uint64{5}},
			{`{"hist_access_type": "search", "pattern": "? = ?", "n": 1}`, []uint64{5}},
			{`{"hist_access_type": "search", "pattern": "c*3"}`, []uint64{6}},
			{`{"hist_access_type": "search", "pattern": "(["}`, nil},
			{`{"hist_access_type": "search"}`, []uint64{1, 2, 5, 6}},
		} {
			var q historyQuery
			if err := json.Unmarshal([]byte(c.query), &q); err != nil {
				t.Fatal(err)
			}
			var lines []uint64
			for _, entry := range q.historyEntries(all, func(historyInput) string { return "" }) {
				lines = append(lines, entry.([]any)[1].(uint64))
			}
			if !reflect.DeepEqual(lines, c.lines) {
				t.Errorf("%s: got %v, want %v", c.query, lines, c.lines)
			}
		}
	})

	t.Run("encodes each type as Jupyter does", func(t *testing.T) {
		t.Parallel()
		got := mimeBundle(timeline.Display{
			Data: map[string][]byte{
				"text/html": []byte("<b>"), "application/json": []byte(`{"a":1}`), "application/vnd.x+json": []byte("not json"),
				"image/svg+xml": []byte("<svg/>"), "image/png": {1, 2}, "text/latex": {0xff},
				timeline.MIMETable: []byte(`{"v":1}`), "application/x-own": []byte("ü"), "application/x-bytes": {0xff}, "audio/wav": []byte("RIFF"),
			},
			Omitted: map[string]timeline.Blob{"image/gif": {Bytes: 7}, timeline.MIMETable: {Bytes: 8}},
		})
		want := map[string]any{
			"text/html": "<b>", "application/json": json.RawMessage(`{"a":1}`), "application/vnd.x+json": "not json",
			"image/svg+xml": "<svg/>", "image/png": "AQI=", "text/latex": "\uFFFD", "application/x-own": "ü", "application/x-bytes": "/w==", "audio/wav": "UklGRg==", "text/plain": "[omitted: image/gif of 7 bytes]",
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v", got)
		}
	})

	t.Run("names the error that ended a turn", func(t *testing.T) {
		t.Parallel()
		died := &timeline.WorkerExited{Reason: "killed by SIGKILL"}
		for _, c := range []struct {
			end  timeline.TurnEnded
			died *timeline.WorkerExited
			name string // "" if the turn did not fail
		}{
			{timeline.TurnEnded{Outcome: timeline.OutcomeOK}, nil, ""},
			{timeline.TurnEnded{Outcome: timeline.OutcomeError, Name: "E"}, nil, "E"},
			{timeline.TurnEnded{Outcome: timeline.OutcomeError}, nil, "Error"},
			{timeline.TurnEnded{Outcome: timeline.OutcomeInterrupted}, nil, "KeyboardInterrupt"},
			{timeline.TurnEnded{Outcome: timeline.OutcomeEnded}, died, "WorkerEnded"},
			{timeline.TurnEnded{Outcome: timeline.OutcomeEnded}, &timeline.WorkerExited{Reason: "exit status 0", Clean: true}, "WorkerEnded"},
			{timeline.TurnEnded{Outcome: timeline.OutcomeEnded}, &timeline.WorkerExited{Reason: "reset", Clean: true}, "WorkerEnded"},
		} {
			f := newErrorContent(c.end, nil, c.died)
			if f == nil && c.name != "" || f != nil && (f.Name != c.name || len(f.Traceback) == 0) {
				t.Errorf("%+v: %+v", c.end, f)
			}
		}
	})
}

func FuzzHistory_NoQueryPanics(f *testing.F) {
	f.Add([]byte(`{"hist_access_type": "search", "pattern": "[*?\\"}`))
	f.Add([]byte(`{"hist_access_type": "range", "session": -1, "start": 9, "stop": -9}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var q historyQuery
		if json.Unmarshal(text, &q) == nil {
			q.historyEntries([]historyInput{{session: 1, line: 1, code: "a"}, {session: 3, line: 4}}, func(historyInput) string { return "v" })
		}
	})
}
