//go:build linux || windows

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain, Serial: true})
}

// newModelServer returns a server of a model that knows one rare bird.
func newModelServer(t *testing.T, asked *atomic.Int64) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		answer := "no"
		if strings.Contains(string(body), "purple sandpiper") {
			answer = "yes"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": answer}}}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// callReport matches the report of the calls, which has a time if the machine is busy.
var callReport = regexp.MustCompile(`\[called query(, [0-9.]+ s)?\]\n\[called ask_model × 3`)

func TestExample_CodeAsksModel(t *testing.T) {
	for name, c := range map[string]struct {
		spec workers.Spec
		code string
	}{
		"Python": {python.Spec(python.Options{}), `
from turnstone import query, ask_model
rare = [row["Species"] for row in query(place="harbour") if ask_model("Is this bird rare here? yes or no", text=row["Species"]) == "yes"]
print(rare)`},
		"R": {r.Spec(r.Options{}), `
rows <- turnstone$query(place = "harbour")
rare <- vapply(rows$Species, function(s) turnstone$ask_model("Is this bird rare here? yes or no", text = s) == "yes", NA)
print(rows$Species[rare])`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.spec.Err != nil {
				t.Skipf("needs %s: %v", name, c.spec.Err)
			}
			var asked atomic.Int64
			text, err := runCode(t.Context(), c.spec, c.code, newModelServer(t, &asked))
			if err != nil || !strings.Contains(text, "purple sandpiper") || strings.Contains(text, "knot") || asked.Load() != 3 {
				t.Errorf("%d questions, then %q, %v", asked.Load(), text, err)
			}
			if !callReport.MatchString(text) {
				t.Errorf("the calls are not reported: %q", text)
			}
		})
	}
}

func TestExample_ModelFails(t *testing.T) {
	t.Parallel()
	spec := python.Spec(python.Options{})
	if spec.Err != nil {
		t.Skip(spec.Err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	text, err := runCode(t.Context(), spec, "import turnstone\nturnstone.ask_model('x')", server.URL)
	if err != nil || !strings.Contains(text, "ConnectionError: the model does not answer: 404 Not Found") {
		t.Errorf("%q, %v", text, err)
	}
}
