package webui

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/cmd/internal/chartlib"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxScriptBytes bounds the scripts of libraries that the server keeps, in bytes. Beyond it, the
	// oldest ones are dropped; they are read again with the next chart that needs them.
	maxScriptBytes = 64 << 20

	// loadTimeout bounds how long a script is read, perhaps from a remote over a slow connection.
	loadTimeout = time.Minute
)

// chartScripts are the scripts of libraries that charts of this web UI have used.
type chartScripts struct {
	loading sync.Mutex // held while a script is read, so that charts side by side read it once

	readVega sync.Once
	vega     map[string]chartlib.Script // by name; set by readVega

	mu   sync.Mutex
	kept []chartlib.Script
}

// find returns a script that is kept or part of the program, by its SHA-256.
func (c *chartScripts) find(digest string) (chartlib.Script, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.kept, func(one chartlib.Script) bool { return one.Digest == digest }); i >= 0 {
		return c.kept[i], true
	}
	for _, one := range c.vegaScripts() {
		if one.Digest == digest {
			return one, true
		}
	}
	return chartlib.Script{}, false
}

func (c *chartScripts) keep(file chartlib.Script) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, file)
	total := 0
	for i := len(c.kept) - 1; i >= 0; i-- {
		if total += len(c.kept[i].Code); total > maxScriptBytes {
			c.kept = slices.Delete(c.kept, 0, i+1)
			return
		}
	}
}

// loadScript reads the script at a path on the daemon's machine, and keeps it. The digest is checked
// again here, because that daemon may be on a machine that the user trusts less.
func (s *Server) loadScript(ctx context.Context, path string) (chartlib.Release, error) {
	c := &s.chartScripts
	c.loading.Lock()
	defer c.loading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	found, err := s.options.Link.ReadLibrary(ctx, protocol.LibraryParams{Path: path})
	if err != nil {
		return chartlib.Release{}, err
	}
	release, ok := chartlib.Find(found.Digest)
	if !ok {
		return chartlib.Release{}, session.Errorf(session.KindNoAccess, "its library is not a build that this program knows")
	}
	if _, ok := c.find(release.Digest); ok {
		return release, nil
	}
	script, err := s.readScript(ctx, path)
	if err == nil && chartlib.DigestOf(script) != release.Digest {
		err = session.Errorf(session.KindFileChanged, "the file of its library changed while it was read")
	}
	if err != nil {
		return chartlib.Release{}, err
	}
	c.keep(chartlib.Script{Release: release, Code: script})
	return release, nil
}

// readScript reads all parts of a script.
func (s *Server) readScript(ctx context.Context, path string) (script []byte, err error) {
	for {
		part, err := s.options.Link.ReadLibrary(ctx, protocol.LibraryParams{Path: path, Script: true, Offset: int64(len(script))})
		if err != nil {
			return nil, err
		}
		script = append(script, part.Script...)
		if len(part.Script) == 0 || int64(len(script)) >= part.Bytes || len(script) > chartlib.MaxFileBytes {
			return script, nil
		}
	}
}

// loadLibrary reads the scripts of the library that the worker has named for a chart. Those of Vega are
// part of the program.
func (s *Server) loadLibrary(ctx context.Context, d timeline.Display, kind string) (all []chartlib.Release, err error) {
	if library := libraryOf(kind); isVega(library) {
		return s.chartScripts.vegaLibrary(library), nil
	}
	files := d.LibraryFiles(kind)
	if len(files) == 0 {
		return nil, session.Errorf(session.KindUnsupported, "its library was not found as a file")
	}
	for _, path := range files {
		r, err := s.loadScript(ctx, path)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if name := libraryOf(kind); all[0].Name != name {
		return nil, session.Errorf(session.KindInvalid, "%s is named as its library, which does not draw it", all[0].Name)
	}
	return all, nil
}

// libraryOf returns the name of the library that draws charts of a type, "" for other types.
func libraryOf(kind string) string {
	switch kind {
	case "application/vnd.vegalite.v4+json", "application/vnd.vegalite.v5+json", "application/vnd.vegalite.v6+json":
		return "vega-lite"
	case "application/vnd.vega.v5+json", "application/vnd.vega.v6+json":
		return "vega"
	}
	switch {
	case !isChart(kind):
		return ""
	case strings.Contains(kind, "plotly"):
		return "plotly"
	case strings.Contains(kind, "bokeh"):
		return "bokeh"
	}
	return ""
}

// drawsPictures reports whether a library can draw charts as images.
func drawsPictures(library string) bool { return library == "plotly" || isVega(library) }

// A chartInfo tells the browser how a chart is drawn.
type chartInfo struct {
	Library string `json:"library"` // plotly, bokeh, vega or vega-lite
	Version string `json:"version"`

	// Drawer is the address of a document that draws several charts as images, if the library can.
	Drawer string `json:"drawer,omitempty"`
	Note   string `json:"note,omitempty"` // a sentence about parts of the chart that do not work here
}

// serveChart tells how a chart is drawn. An error says why it is not drawn.
func (s *Server) serveChart(w http.ResponseWriter, r *http.Request) {
	d, kind, data, err := s.requestedResult(r)
	if err == nil {
		err = checkChart(kind, data)
	}
	var scripts []chartlib.Release
	if err == nil {
		scripts, err = s.loadLibrary(r.Context(), d, kind)
	}
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	library := scripts[slices.IndexFunc(scripts, func(one chartlib.Release) bool { return one.Name == libraryOf(kind) })]
	info := chartInfo{Library: library.Name, Version: library.Version}
	switch {
	case drawsPictures(library.Name):
		info.Drawer = "/frame/drawer/" + library.Digest
	case bytes.Contains(data, []byte(`"CustomJS`)):
		info.Note = "Its own scripts (CustomJS) do not run here."
	}
	writeJSON(w, http.StatusOK, info)
}

// checkChart returns an error for a chart that cannot be drawn under the policy of its frame. The
// library itself would draw an empty chart and say nothing.
func checkChart(kind string, spec []byte) error {
	switch libraryOf(kind) {
	case "plotly":
		return checkPlotly(spec)
	case "vega", "vega-lite":
		var chart map[string]any
		if err := json.Unmarshal(spec, &chart); err != nil {
			return session.Errorf(session.KindInvalid, "its data is not that of a Vega chart")
		}
		return checkVega(chart, false)
	}
	return nil
}

func checkPlotly(spec []byte) error {
	type traces []struct {
		Type string `json:"type"`
	}
	var chart struct {
		Data   traces `json:"data"`
		Frames []struct {
			Data traces `json:"data"`
		} `json:"frames"`
	}
	if err := json.Unmarshal(spec, &chart); err != nil {
		return session.Errorf(session.KindInvalid, "its data is not that of a plotly chart")
	}
	all := chart.Data
	for _, f := range chart.Frames {
		all = append(all, f.Data...)
	}
	for _, trace := range all {
		switch {
		case trace.Type == "splom" || trace.Type == "parcoords":
			return session.Errorf(session.KindUnsupported, "traces of type %.30q compile code from text, which is not allowed here; "+
				"display({'text/html': fig.to_html()}, raw=True) shows the chart as a page whose scripts you can run", trace.Type)
		case slices.Contains(mapTraces(), trace.Type):
			return session.Errorf(session.KindUnsupported, "traces of type %.30q load maps from the network, which is not allowed here", trace.Type)
		}
	}
	return nil
}

// mapTraces returns the types of traces that plotly.js draws with maps from the network.
func mapTraces() []string {
	return []string{"choropleth", "choroplethmap", "choroplethmapbox", "densitymap", "densitymapbox", "scattergeo", "scattermap", "scattermapbox"}
}

// serveChartFrame serves a chart as a document that draws itself with a known library. Only that library
// and our draw.js run in it. The data is JSON in a block that no text can leave.
func (s *Server) serveChartFrame(w http.ResponseWriter, r *http.Request, d timeline.Display, kind string, spec []byte) {
	err := checkChart(kind, spec)
	var scripts []chartlib.Release
	if err == nil {
		scripts, err = s.loadLibrary(r.Context(), d, kind)
	}
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	s.writeChartDocument(w, libraryOf(kind), scripts, spec)
}

// serveDrawer serves the document that draws charts of one library as images. It gets the charts in
// messages of the page.
func (s *Server) serveDrawer(w http.ResponseWriter, r *http.Request) {
	file, ok := s.chartScripts.find(r.PathValue("digest"))
	if !ok || !drawsPictures(file.Name) {
		writeError(w, http.StatusNotFound, "not_found", "no such library was read")
		return
	}
	scripts := []chartlib.Release{file.Release}
	if isVega(file.Name) {
		scripts = s.chartScripts.vegaLibrary(file.Name)
	}
	s.writeChartDocument(w, file.Name, scripts, nil)
}

// writeChartDocument writes a document in which exactly draw.js and the scripts of a library run.
//
// The library uses sinks for HTML, so draw.js sets a policy for Trusted Types that lets few elements pass.
func (s *Server) writeChartDocument(w http.ResponseWriter, library string, scripts []chartlib.Release, spec []byte) {
	at := s.Origin() + "/lib/"
	sources := "img-src data: blob:; script-src " + at + "draw.js"
	var tags strings.Builder
	tags.WriteString(`<script crossorigin src="/lib/draw.js"></script>`)
	for _, one := range scripts {
		sources += " " + at + one.Digest + ".js"
		tags.WriteString(`<script crossorigin src="/lib/` + one.Digest + `.js"></script>`)
	}
	s.setFramePolicy(w.Header(), "default", sources, `"`+at+`*"`)
	_, _ = io.WriteString(w, "<!doctype html><meta charset=utf-8><title>a chart</title><style>html{background:#fff}body{margin:0}.vega-bindings{padding:0 8px 8px;font:13px system-ui,sans-serif}</style>"+ // the browser may have gone
		`<div id=place></div><script type="application/json" id=spec data-library="`+library+`">`+
		strings.ReplaceAll(string(spec), "<", `\u003c`)+"</script>"+tags.String())
}

// serveLibrary serves the script of a library, which is public, or our draw.js. It needs no cookie,
// because the frames that load it have no origin and send none.
func (s *Server) serveLibrary(w http.ResponseWriter, r *http.Request) {
	digest, isScript := strings.CutSuffix(r.PathValue("file"), ".js")
	file, ok := s.chartScripts.find(digest)
	if digest == "draw" {
		file.Code, _ = staticFiles.ReadFile("static/draw.js")
		ok = true
	}
	if !ok || !isScript {
		writeError(w, http.StatusNotFound, "not_found", "no such page")
		return
	}
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	w.Header().Set("Access-Control-Allow-Origin", "*") // otherwise the frame learns of an error only that there was one
	_, _ = w.Write(file.Code)                          // the browser may have gone
}
