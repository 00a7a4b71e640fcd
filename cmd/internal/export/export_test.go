package export_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/timeline"
)

var testSession = export.SessionFacts{Name: "main", Runtime: "3.11.7", Language: export.NotebookLanguage{
	Display: "Python", Extension: "py", Comment: "#", Kernel: "python3", JupyterName: "python",
}}

// turnEvents returns the events of one turn, including its output.
func turnEvents(n uint64, input, outcome string, shown ...timeline.Body) []timeline.Event {
	all := []timeline.Event{{Turn: n, Body: timeline.TurnStarted{Input: []byte(input), InputBytes: len(input), Author: "ada"}}}
	for _, b := range shown {
		all = append(all, timeline.Event{Turn: n, Body: b})
	}
	end := timeline.TurnEnded{Outcome: timeline.Outcome(outcome)}
	if outcome == "error" {
		end.Name, end.Message = "NameError", "no y\nsecond line"
	}
	return append(all, timeline.Event{Turn: n, Body: end})
}

func textBody(s string) timeline.Body { return timeline.Text{Data: []byte(s)} }

func writeExport(t *testing.T, format string, events ...[]timeline.Event) string {
	t.Helper()
	var b strings.Builder
	if err := export.Write(&b, format, testSession, slices.Values(slices.Concat(events...))); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// allEventKinds returns one event of every kind.
func allEventKinds() []timeline.Event {
	clipped := turnEvents(6, "very long", "ok")
	clipped[0].Body = timeline.TurnStarted{Input: []byte("very"), InputBytes: 70000}
	return slices.Concat(
		[]timeline.Event{{Generation: 1, Body: timeline.WorkerStarted{}}, {Body: textBody("welcome\n")}, {Body: timeline.TurnEnded{Outcome: "ok"}}},
		turnEvents(1, "x = 1\nx\n", "ok", textBody("1\n")),
		turnEvents(2, "y", "error", textBody("NameError\n")),
		turnEvents(3, "input('n? ')", "ok", textBody("n? "), timeline.InputLine{Prompt: "n? ", Text: `b"ob`}, textBody("done\n")),
		turnEvents(4, "getpass()", "ok", textBody("p: "), timeline.InputLine{Prompt: "p: ", Secret: true}),
		turnEvents(5, "loop()", "interrupted"),
		clipped,
		[]timeline.Event{{Seq: 60, Body: timeline.Gap{From: 50, To: 60, Bytes: 9}}, {Turn: 7, Body: timeline.TurnEnded{Outcome: "ok"}}},
		[]timeline.Event{{Body: timeline.WorkerExited{Reason: "killed by SIGKILL"}}, {Generation: 2, Body: timeline.WorkerStarted{}}},
		turnEvents(8, "last", "ok", textBody("\x1b[31mred\x1b[0m\r"), textBody("over\n"))[:3],
	)
}

func TestExportText(t *testing.T) {
	t.Run("comments out failed inputs in a script", func(t *testing.T) {
		const want = `# main: inputs of a repl session, Python 3.11.7.
# Inputs that did not succeed are comments.

# turn 1 by ada
x = 1
x

# turn 2 by ada failed: NameError: no y
# y

# turn 3 by ada
# it asked "n? " and was given "b\"ob"
input('n? ')

# turn 4 by ada
# it asked "p: " and was given a secret
getpass()

# turn 5 by ada was interrupted
# loop()

# turn 6 is 70000 bytes long; only the beginning was stored
# very

# events 50 to 60 were lost with 9 bytes of output and are missing from this file

# the input of turn 7 is lost

# the runtime ended: killed by SIGKILL

# the runtime was restarted and its state was lost

# turn 8 by ada was still running
# last
`
		if got := writeExport(t, "py", allEventKinds()); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})

	t.Run("writes every event into a transcript", func(t *testing.T) {
		const want = `welcome
[turn 1 by ada]
x = 1
x
1
[turn 2 by ada]
y
NameError
[failed: NameError: no y]
[turn 3 by ada]
input('n? ')
n? b"ob
done
[turn 4 by ada]
getpass()
p: (a secret)
[turn 5 by ada]
loop()
[was interrupted]
[turn 6]
very
[is 70000 bytes long; only the beginning was stored]
[events 50 to 60 were lost with 9 bytes of output and are missing from this file]
[the input of turn 7 is lost]
[the runtime ended: killed by SIGKILL]
[the runtime was restarted and its state was lost]
[turn 8 by ada]
last
over
[was still running]
`
		if got := writeExport(t, "TXT", allEventKinds()); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// A notebookFile is a notebook as far as these tests check its format.
type notebookFile struct {
	Format   int `json:"nbformat"`
	Minor    int `json:"nbformat_minor"`
	Metadata struct {
		Kernel struct {
			Name        string
			DisplayName string `json:"display_name"`
		} `json:"kernelspec"`
	}
	Cells []struct {
		Type     string `json:"cell_type"`
		ID       string
		Metadata map[string]any
		Source   []string
		Count    *int             `json:"execution_count"`
		Outputs  []map[string]any `json:"outputs"`
	}
}

func readNotebook(t *testing.T, events ...[]timeline.Event) (f notebookFile) {
	t.Helper()
	if err := json.Unmarshal([]byte(writeExport(t, "ipynb", events...)), &f); err != nil {
		t.Fatal(err)
	}
	if f.Format != 4 || f.Minor != 5 || f.Metadata.Kernel.Name != "python3" || f.Metadata.Kernel.DisplayName == "" {
		t.Errorf("got %+v", f)
	}
	goodID := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	seen := make(map[string]bool)
	for _, c := range f.Cells {
		isCode := c.Type == "code"
		if !goodID.MatchString(c.ID) || seen[c.ID] || c.Metadata == nil || c.Source == nil || isCode != (c.Outputs != nil) || isCode != (c.Count != nil) || !isCode && c.Type != "markdown" {
			t.Errorf("a cell: %+v", c)
		}
		seen[c.ID] = true
	}
	return f
}

func TestExportNotebook(t *testing.T) {
	t.Run("has the successful inputs as code cells", func(t *testing.T) {
		f := readNotebook(t, allEventKinds())
		var code []string
		for _, c := range f.Cells {
			if c.Type == "code" {
				code = append(code, strings.Join(c.Source, ""))
			}
		}
		if want := []string{"x = 1\nx", "input('n? ')", "getpass()"}; !slices.Equal(code, want) {
			t.Errorf("got %q, want %q", code, want)
		}
		readNotebook(t) // of an empty session
	})

	t.Run("writes text and images as outputs", func(t *testing.T) {
		image := func(source, data string, update bool) timeline.Body {
			d := timeline.NewImageDisplay("image/png", []byte(data), source, "")
			d.Update = update
			return d
		}
		f := readNotebook(t, turnEvents(1, "plot", "ok",
			textBody("a\xc3"), textBody("\xbc\n"), timeline.Text{Stream: timeline.Stderr, Data: []byte("warned\n")},
			image("1", "first", false), image("2", "other", false), image("1", "second", true),
			timeline.NewImageDisplay("image/svg+xml", []byte("<svg/>"), "", ""), timeline.Display{Omitted: map[string]timeline.Blob{"image/png": {Bytes: 9}}}))
		got := fmt.Sprint(f.Cells[0].Outputs)
		for _, want := range []string{
			"[map[name:stdout output_type:stream text:[aü\n]] map[name:stderr output_type:stream text:[warned\n]] ",
			"image/png:c2Vjb25k", "image/png:b3RoZXI=", "image/svg+xml:[<svg/>]", "a display, only partly stored",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %s", want, got)
			}
		}
		if strings.Index(got, "c2Vjb25k") > strings.Index(got, "b3RoZXI=") || len(f.Cells[0].Outputs) != 6 {
			t.Errorf("the update is not in place of the first display: %s", got)
		}
	})

	t.Run("writes complete results with all their types", func(t *testing.T) {
		echo := func(s string) timeline.Body { return timeline.Text{Data: []byte(s), Kind: timeline.TextResult} }
		bundle := func(d timeline.Display, pairs ...string) timeline.Body {
			d.Data = map[string][]byte{}
			for i := 0; i < len(pairs); i += 2 {
				d.Data[pairs[i]] = []byte(pairs[i+1])
			}
			return d
		}
		silent := turnEvents(2, "hidden", "ok", textBody("hidden"))
		for i := range silent {
			silent[i].Silent = true
		}
		f := readNotebook(t, turnEvents(1, "x", "ok",
			textBody("out\n"), echo("a\nb\n"), bundle(timeline.Display{Result: true, Meta: []byte(`{"text/html":{"isolated":true},"application/vnd.x+json":{"turnstone_library":["/local/path"]}}`)}, "text/html", "<b>\n</b>", timeline.MIMETable, `{"v":1}`, timeline.MIMEWidget, `{"model_id":"1"}`, "application/vnd.x+json", `{"deep":[1]}`),
			bundle(timeline.Display{ID: "bar"}, "text/plain", "1"), bundle(timeline.Display{ID: "bar", Update: true}, "text/plain", "2"),
			bundle(timeline.Display{ID: "never", Update: true}, "text/plain", "3"), timeline.OutputCleared{},
			bundle(timeline.Display{}, "application/json", "{broken", "image/png", "\x89PNG"), echo("7\n")), silent)
		if len(f.Cells) != 1 {
			t.Fatalf("got %d cells, including the silent turn", len(f.Cells))
		}
		got, err := json.Marshal(f.Cells[0].Outputs)
		if err != nil {
			t.Fatal(err)
		}
		want := `[{"name":"stdout","output_type":"stream","text":["out\n"]},` +
			`{"data":{"application/vnd.x+json":{"deep":[1]},"text/html":["\u003cb\u003e\n","\u003c/b\u003e"],"text/plain":["a\n","b"]},"execution_count":1,"metadata":{"text/html":{"isolated":true}},"output_type":"execute_result"},` +
			`{"data":{"text/plain":["2"]},"metadata":{},"output_type":"display_data"},` +
			`{"data":{"text/plain":["3"]},"metadata":{},"output_type":"display_data"},` +
			`{"data":{"application/json":["{broken"],"image/png":"iVBORw==","text/plain":["an image"]},"metadata":{},"output_type":"display_data"},` +
			`{"data":{"text/plain":["7"]},"execution_count":1,"metadata":{},"output_type":"execute_result"}]`
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})

	t.Run("fences code that contains a fence", func(t *testing.T) {
		f := readNotebook(t, turnEvents(1, "````\nx", "error"))
		if got := strings.Join(f.Cells[0].Source, ""); !strings.HasSuffix(got, "\n`````\n````\nx\n`````") {
			t.Errorf("got %q", got)
		}
	})
}

func TestExportLimits(t *testing.T) {
	t.Run("bounds the output of a turn and says so", func(t *testing.T) {
		long := strings.Repeat(strings.Repeat("x", 1023)+"\n", 1<<10) // one megabyte
		var shown []timeline.Body
		for range 20 {
			shown = append(shown, textBody(long))
		}
		for _, format := range []string{"ipynb", "txt"} {
			got := writeExport(t, format, turnEvents(1, "loud", "ok", shown...))
			if !strings.Contains(got, "4194304 more bytes of output are left out") || len(got) > 18<<20 {
				t.Errorf("%s: %d bytes", format, len(got))
			}
		}
	})

	t.Run("returns write errors and rejects unknown formats", func(t *testing.T) {
		for _, format := range testSession.Language.Formats() {
			if err := export.Write(fullDisk{}, format, testSession, slices.Values(allEventKinds())); err == nil || err.Error() != "the disk is full" {
				t.Errorf("%s: %v", format, err)
			}
		}
		if err := export.Write(fullDisk{}, "R", testSession, slices.Values(allEventKinds())); err == nil || !strings.Contains(err.Error(), "py, ipynb, txt") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("fetches large data only for formats that hold it", func(t *testing.T) {
		kept := strings.Repeat("<p>", 2000)
		shown := timeline.Display{
			Data:    map[string][]byte{"text/plain": []byte("a table")},
			Omitted: map[string]timeline.Blob{"text/html": {Bytes: 6000, Digest: "kept"}, "image/png": {Bytes: 9 << 20, Digest: "gone"}, "application/json": {Bytes: 5}},
		}
		var read []string
		from := testSession
		from.FetchBlob = func(b timeline.Blob) ([]byte, error) {
			read = append(read, b.Digest)
			switch b.Digest {
			case "kept":
				return []byte(kept), nil
			case "gone":
				return nil, nil
			}
			return nil, errors.New("the daemon is gone")
		}
		to := func(format string, b timeline.Body) (string, error) {
			var out strings.Builder
			err := export.Write(&out, format, from, slices.Values(turnEvents(1, "table", "ok", b)))
			return out.String(), err
		}
		got, err := to("ipynb", shown)
		if err != nil || !strings.Contains(got, `"text/html":["\u003cp\u003e`) || !strings.Contains(got, `"text/plain":["a table"]`) || strings.Contains(got, "image/png") {
			t.Errorf("%v: %.300s", err, got)
		}
		if slices.Sort(read); !slices.Equal(read, []string{"gone", "kept"}) {
			t.Errorf("read %q", read)
		}
		read = nil
		if got, err := to("py", shown); err != nil || len(read) > 0 || !strings.Contains(got, "\ntable\n") {
			t.Errorf("script: %v, read %q: %s", err, read, got)
		}
		shown.Omitted["text/html"] = timeline.Blob{Bytes: 1, Digest: "unreachable"}
		for _, format := range []string{"ipynb", "txt"} {
			if _, err := to(format, shown); err == nil || err.Error() != "the daemon is gone" {
				t.Errorf("%s: %v", format, err)
			}
		}
		huge := timeline.Display{Omitted: map[string]timeline.Blob{"text/html": {Bytes: 17 << 20, Digest: "huge"}}}
		read = nil
		if got, err := to("ipynb", huge); err != nil || len(read) > 0 || !strings.Contains(got, "17825792 more bytes of output are left out") {
			t.Errorf("output beyond the limit: %v, read %q: %.300s", err, read, got)
		}
	})
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestExportText_Keys(t *testing.T) {
	keys := func(text, author string) timeline.Body {
		return timeline.InputLine{Text: text, Author: author, Keys: true, Secret: text == ""}
	}
	events := turnEvents(1, "menu()", "ok", textBody("> a\n"), keys("<Down>", "bob"), keys("<Enter>", "bob"), keys("x", "eve"), textBody("b chosen"), keys("", "eve"), textBody("done\n"))
	script := writeExport(t, "py", events)
	if want := "# its program got the keys `<Down><Enter>` from bob\n# its program got the keys `x` from eve\n# its program got secret keys from eve\nmenu()\n"; !strings.Contains(script, want) {
		t.Errorf("a script: got\n%s", script)
	}
	text := writeExport(t, "txt", events)
	if want := "> a\n[bob typed <Down>]\n[bob typed <Enter>]\n[eve typed x]\nb chosen\n[eve typed secret keys]\ndone\n"; !strings.Contains(text, want) {
		t.Errorf("a transcript: got\n%s", text)
	}
}
