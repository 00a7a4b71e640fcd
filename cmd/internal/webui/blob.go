package webui

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// imageTypes are the types that a browser shows in the page as an image.
func imageTypes() []string { return []string{"image/png", "image/jpeg", "image/gif", "image/webp"} }

// requestedResult returns the part of a result that an address names.
func (s *Server) requestedResult(r *http.Request) (kind string, data []byte, err error) {
	seq, err1 := strconv.ParseUint(r.PathValue("seq"), 10, 63)
	n, err2 := strconv.ParseUint(r.PathValue("part"), 10, 8)
	if err1 != nil || err2 != nil || seq == 0 {
		return "", nil, session.Errorf(session.KindInvalid, "there is no such address")
	}
	d, err := s.readDisplay(r.Context(), r.PathValue("session"), timeline.Seq(seq))
	if err != nil {
		return "", nil, err
	}
	all := displayTypes(d)
	if int(n) >= len(all) {
		return "", nil, session.Errorf(session.KindClosed, "there is no such result: it may be too old")
	}
	kind = all[n]
	if data, ok := d.Data[kind]; ok {
		return kind, data, nil
	}
	data, err = session.ReadBlob(r.Context(), s.options.Link.Session(r.PathValue("session")), d.Omitted[kind])
	return kind, data, err
}

// readDisplay reads a result with its small data.
func (s *Server) readDisplay(ctx context.Context, name string, seq timeline.Seq) (d timeline.Display, err error) {
	part, err := s.options.Link.Session(name).Read(ctx, session.ReadQuery{After: seq - 1, Before: seq + 1, Limit: 1, InlineBytes: session.MaxInlineBytes})
	for _, e := range part.Events {
		d, _ = e.Body.(timeline.Display)
	}
	return d, err
}

// serveBlob serves a part of a result: a picture as such, all else as a file to keep.
func (s *Server) serveBlob(w http.ResponseWriter, r *http.Request) {
	kind, data, err := s.requestedResult(r)
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	shown := displayPart{MIME: kind}
	shown.measureImage(data)
	if shown.TooLarge && r.Header.Get("Sec-Fetch-Dest") == "image" { // browsers decode a picture whatever its type is said to be
		s.writeCallError(w, session.Errorf(session.KindTooLarge, "a picture of %d x %d pixels is too large to show", shown.Width, shown.Height))
		return
	}
	if slices.Contains(imageTypes(), kind) && !shown.TooLarge {
		h.Set("Content-Type", kind)
	} else {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", `attachment; filename="`+downloadName(r.PathValue("seq"), kind)+`"`)
	}
	_, _ = w.Write(data) // the browser may have gone
}

// downloadName returns a name for the file of a result. The type is a text of user code.
func downloadName(seq, kind string) string {
	known := map[string]string{
		"image/svg+xml": ".svg", "text/html": ".html", "text/plain": ".txt", "text/latex": ".tex", "text/markdown": ".md",
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
	}
	end, ok := known[kind]
	switch {
	case ok:
	case strings.HasSuffix(kind, "json"):
		end = ".json"
	default:
		end = ".bin"
	}
	return "result-" + path.Base(seq) + end
}

// serveFrame serves HTML or SVG of a result as a document of its own, for a frame. Its policy lets
// it load nothing. Scripts run only when the person wanted it for this result.
func (s *Server) serveFrame(w http.ResponseWriter, r *http.Request) {
	kind, data, err := s.requestedResult(r)
	if err == nil && kind != "text/html" && kind != "image/svg+xml" {
		err = session.Errorf(session.KindInvalid, "this result is no document")
	}
	if err == nil && r.Header.Get("Sec-Fetch-Dest") != "iframe" && r.Header.Get("Sec-Fetch-Dest") != "" {
		err = session.Errorf(session.KindInvalid, "a result is shown in a frame only")
	}
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	policy := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors " + s.Origin()
	run := r.URL.Query().Get("scripts") == "run"
	if run {
		policy += "; script-src 'unsafe-inline'; sandbox allow-scripts"
	} else {
		policy += "; sandbox"
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("X-DNS-Prefetch-Control", "off")
	if !run && kind == "text/html" {
		data = disconnectHTML(data)
	}
	_, _ = w.Write(frameDocument(kind, data)) // the browser may have gone
}

var connectingTags = regexp.MustCompile(`(?i)<(link|iframe)`)

// disconnectHTML returns HTML that connects to nobody: no policy holds back a link that asks for a connection,
// or one in the srcdoc of a frame. A link could do nothing else here; a frame has its document once scripts
// may run.
func disconnectHTML(html []byte) []byte {
	return connectingTags.ReplaceAllFunc(html, func(tag []byte) []byte {
		if len(tag) == len("<link") {
			return []byte("<meta") // it has no content either
		}
		return []byte("<x-iframe")
	})
}

// frameStyle gives a document of a result the look of paper, or of the page.
const frameStyle = `<style>html{font:13px/1.45 system-ui,"Segoe UI",Roboto,"Liberation Sans",sans-serif;color:#22252a;background:#fff}` +
	`body{margin:8px}img{max-width:100%;height:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}` +
	`th,td{padding:2px 10px;text-align:right;border:0;border-bottom:1px solid #e2ddd2}thead th{border-bottom:1px solid #888;font-weight:600}tbody tr:hover{background:#8882}</style>`

const themedStyle = `<style>@media(prefers-color-scheme:dark){html{color:#e4e2dc;background:#1b1e22}th,td{border-color:#30353b}}</style>`

// frameDocument returns a page for a frame.
func frameDocument(kind string, data []byte) []byte {
	var b bytes.Buffer
	b.WriteString("<!doctype html><meta charset=utf-8><title>a result</title>" + frameStyle)
	if kind == "image/svg+xml" {
		b.WriteString(`<img alt="a drawing that the code made" src="data:image/svg+xml;base64,` + base64.StdEncoding.EncodeToString(data) + `">`)
		return b.Bytes()
	}
	if isThemed(data) {
		b.WriteString(themedStyle)
	}
	b.Write(data)
	return b.Bytes()
}

// serveExport writes a session as a file to keep.
func (s *Server) serveExport(w http.ResponseWriter, r *http.Request) {
	name, format := r.PathValue("session"), r.URL.Query().Get("format")
	now, err := s.options.Link.Session(name).Info(r.Context())
	if err == nil && !slices.Contains(s.options.Formats(now.Language), format) {
		err = session.Errorf(session.KindInvalid, "there is no format %q for this session", format)
	}
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+name+"."+format+`"`)
	if err := s.options.Export(r.Context(), w, name, format); err != nil {
		s.log.Warn("a download broke off", "session", name, "error", err)
		panic(http.ErrAbortHandler) // the browser must not take the part for the whole
	}
}
