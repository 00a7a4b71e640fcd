package webui

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/chartlib"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestVegaScripts(t *testing.T) {
	t.Parallel()
	s := &Server{hostPort: "x.localhost:1"}

	t.Run("are the ones in SOURCES", func(t *testing.T) {
		t.Parallel()
		list, err := staticFiles.ReadFile("static/vendor/SOURCES")
		if err != nil {
			t.Fatal(err)
		}
		for name, script := range s.chartScripts.vegaScripts() {
			line := name + ".js " + name + "@" + script.Version + " "
			if name != "vega-interpreter" && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(line)+`\S+ \S+ `+script.Digest+`$`).Match(list) {
				t.Errorf("SOURCES has no line %s…%s", line, script.Digest)
			}
			if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(script.Version) || len(script.Code) < 5000 {
				t.Errorf("%s has the version %q and %d bytes", name, script.Version, len(script.Code))
			}
		}
	})

	t.Run("have an interpreter that is not a module", func(t *testing.T) {
		t.Parallel()
		code := string(s.chartScripts.vegaScripts()["vega-interpreter"].Code)
		if regexp.MustCompile(`(?m)^\s*(import|export)\b`).MatchString(code) || !strings.Contains(code, "vega.expressionInterpreter = ") {
			t.Errorf("the script is %s … %s", code[:200], code[len(code)-200:])
		}
	})

	t.Run("are served by digest", func(t *testing.T) {
		t.Parallel()
		for name, script := range s.chartScripts.vegaScripts() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/lib/x", nil)
			r.SetPathValue("file", script.Digest+".js")
			w := httptest.NewRecorder()
			s.serveLibrary(w, r)
			if w.Code != http.StatusOK || chartlib.DigestOf(w.Body.Bytes()) != script.Digest || w.Header().Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s: %d, %d bytes, %v", name, w.Code, w.Body.Len(), w.Header())
			}
		}
	})

	t.Run("draw the known types, without a file of the session", func(t *testing.T) {
		t.Parallel()
		for kind, want := range map[string]string{
			"application/vnd.vegalite.v3+json": "", "application/vnd.vegalite.v4+json": "vega-lite", "application/vnd.vegalite.v5+json": "vega-lite",
			"application/vnd.vegalite.v6+json": "vega-lite", "application/vnd.vegalite.v7+json": "", "application/vnd.vegalite.v6.json": "",
			"application/vnd.vega.v4+json": "", "application/vnd.vega.v5+json": "vega", "application/vnd.vega.v6+json": "vega",
		} {
			if got := libraryOf(kind); got != want {
				t.Errorf("%s is drawn by %q, want %q", kind, got, want)
			}
			item := newEventItem("main", timeline.Event{Seq: 7, Body: timeline.Display{Data: map[string][]byte{kind: []byte(`{}`)}}})
			if got := item.Parts[0].Chart != ""; got != (want != "") {
				t.Errorf("%s: the page draws it: %v", kind, got)
			}
		}
	})
}

func TestCheckChart_Vega(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]session.Kind{
		`{"data":{"values":[{"url":"x","data":{"url":"y"}}]},"mark":{"type":"image","url":"z"}}`:        "",
		`{"datasets":{"d":[{"data":{"url":"y"}}]},"data":{"name":"d"},"usermeta":{"data":{"url":"x"}}}`: "",
		`{"data":{"sequence":{"start":0,"stop":9}}}`:                                                    "",
		`{"data":{"values":"[1]","format":{"type":"json"}}}`:                                            "",
		`{"data":{"url":"cars.json"}}`:                                                                  session.KindUnsupported,
		`{"data":{"url":null}}`:                                                                         session.KindUnsupported,
		`{"layer":[{"mark":"bar"},{"data":{"url":"https://example.org/x.csv"}}]}`:                       session.KindUnsupported,
		`{"transform":[{"lookup":"id","from":{"data":{"url":"x.csv"},"key":"id"}}]}`:                    session.KindUnsupported,
		`{"data":[{"name":"a","values":[]},{"name":"b","url":{"signal":"'x'"}}]}`:                       session.KindUnsupported,
		`{"marks":[{"type":"group","data":[{"name":"b","url":"x"}]}]}`:                                  session.KindUnsupported,
		`{"data":{"values":"a,b\n1,2","format":{"type":"csv"}}}`:                                        session.KindUnsupported,
		`[1]`:                              session.KindInvalid,
		`</script>`:                        session.KindInvalid,
		strings.Repeat(`{"spec":`, 10_001): session.KindInvalid,
	} {
		for _, kind := range []string{"application/vnd.vegalite.v5+json", "application/vnd.vega.v6+json"} {
			err := checkChart(kind, []byte(spec))
			if got := session.KindOf(err); got != want || (err == nil) != (want == "") {
				t.Errorf("%s: %.80s: %v, want %q", kind, spec, err, want)
			}
		}
	}
}
