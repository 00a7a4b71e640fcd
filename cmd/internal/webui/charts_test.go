package webui

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/chartlib"
	"github.com/turnstone-repl/turnstone/session"
)

func TestChartDocument(t *testing.T) {
	t.Parallel()
	s := &Server{hostPort: "x.localhost:1"}
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	w := httptest.NewRecorder()
	s.writeChartDocument(w, "bokeh", []chartlib.Release{{Name: "bokeh", Digest: a}, {Name: "bokeh-widgets", Digest: b}}, []byte(`{"x":"</script><script>1</script><!--<SCRIPT>"}`))
	h, body := w.Result().Header, w.Body.String()

	t.Run("allows exactly the scripts of the library and draw.js", func(t *testing.T) {
		t.Parallel()
		at := "http://x.localhost:1/lib/"
		policy := h.Get("Content-Security-Policy")
		var scripts string
		for directive := range strings.SplitSeq(policy, "; ") {
			if sources, ok := strings.CutPrefix(directive, "script-src "); ok {
				scripts += sources
			}
		}
		if want := at + "draw.js " + at + a + ".js " + at + b + ".js"; scripts != want {
			t.Errorf("script-src is %s, want %s", scripts, want)
		}
		for _, directive := range []string{"default-src 'none'", "sandbox allow-scripts", "base-uri 'none'", "form-action 'none'", "frame-ancestors http://x.localhost:1"} {
			if !strings.Contains(policy, directive) {
				t.Errorf("the policy lacks %s: %s", directive, policy)
			}
		}
		if strings.Contains(policy, "unsafe-eval") || strings.Contains(policy, "http:;") {
			t.Errorf("the policy is weak: %s", policy)
		}
	})

	// Chromium crashes when WebRTC is blocked in a srcdoc frame, which Trusted Types prevent.
	t.Run("sends Connection-Allowlist only with Trusted Types", func(t *testing.T) {
		t.Parallel()
		if h.Get("Connection-Allowlist") != `("http://x.localhost:1/lib/*")` || !strings.Contains(h.Get("Content-Security-Policy"), "require-trusted-types-for 'script'; trusted-types default") {
			t.Errorf("got %v", h)
		}
	})

	t.Run("has no tags from the data", func(t *testing.T) {
		t.Parallel()
		if n := strings.Count(strings.ToLower(body), "<script"); n != 4 { // the data, draw.js and two of the library
			t.Errorf("the document has %d scripts: %s", n, body)
		}
		if strings.Contains(body, "<!--") {
			t.Errorf("the data begins a comment: %s", body)
		}
	})
}

func TestCheckChart(t *testing.T) {
	t.Parallel()
	const plotly = "application/vnd.plotly.v1+json"
	for spec, want := range map[string]session.Kind{
		`{"data":[{"type":"scatter"},{"type":"heatmap"},{"type":"treemap"},{"type":"scatter3d"},{}]}`: "",
		`{}`: "",
		`{"data":[{"type":"scattergl"}],"frames":[{"data":[{"type":"scatterpolargl"}]}]}`: "",
		`{"data":[{"type":"bar"},{"type":"splom"}]}`:                                      session.KindUnsupported,
		`{"data":[{"type":"parcoords"}]}`:                                                 session.KindUnsupported,
		`{"data":[{"type":"scattermap"}]}`:                                                session.KindUnsupported,
		`{"data":[{"type":"choropleth"}]}`:                                                session.KindUnsupported,
		`{"frames":[{"data":[{"type":"splom"}]}]}`:                                        session.KindUnsupported,
		`{"data":7}`: session.KindInvalid,
		`</script>`:  session.KindInvalid,
	} {
		err := checkChart(plotly, []byte(spec))
		if got := session.KindOf(err); got != want || (err == nil) != (want == "") {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
	if err := checkChart("application/vnd.bokeh.v3+json", []byte(`{"data":[{"type":"splom"}]}`)); err != nil {
		t.Errorf("a chart of another library: %v", err)
	}
}
