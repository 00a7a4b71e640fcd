package webui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// requestedResult returns a result and the part of it that a URL names.
func (s *Server) requestedResult(r *http.Request) (d timeline.Display, kind string, data []byte, err error) {
	seq, err1 := strconv.ParseUint(r.PathValue("seq"), 10, 63)
	n, err2 := strconv.ParseUint(r.PathValue("part"), 10, 8)
	if err1 != nil || err2 != nil || seq == 0 {
		return d, "", nil, session.Errorf(session.KindInvalid, "no such address")
	}
	d, err = s.readDisplay(r.Context(), r.PathValue("session"), timeline.Seq(seq))
	if err != nil {
		return d, "", nil, err
	}
	all := displayTypes(d)
	if int(n) >= len(all) {
		return d, "", nil, session.Errorf(session.KindClosed, "no such result: it may have been dropped as too old")
	}
	kind = all[n]
	if data, ok := d.Data[kind]; ok {
		return d, kind, data, nil
	}
	data, err = session.ReadBlob(r.Context(), s.options.Link.Session(r.PathValue("session")), d.Omitted[kind])
	return d, kind, data, err
}

// readDisplay reads a result, including its data if that is small.
func (s *Server) readDisplay(ctx context.Context, name string, seq timeline.Seq) (d timeline.Display, err error) {
	part, err := s.options.Link.Session(name).Read(ctx, session.ReadQuery{After: seq - 1, Before: seq + 1, Limit: 1, InlineBytes: session.MaxInlineBytes})
	for _, e := range part.Events {
		d, _ = e.Body.(timeline.Display)
	}
	return d, err
}

// serveBlob serves a part of a result: an image as an image, and other types as a download.
func (s *Server) serveBlob(w http.ResponseWriter, r *http.Request) {
	_, kind, data, err := s.requestedResult(r)
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	shown := displayPart{MIME: kind}
	shown.measureImage(data)
	if shown.TooLarge && r.Header.Get("Sec-Fetch-Dest") == "image" { // browsers decode an image even if the Content-Type denies it
		s.writeCallError(w, session.Errorf(session.KindTooLarge, "an image of %d x %d pixels is too large to show", shown.Width, shown.Height))
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

// downloadName returns a file name for a result. The type comes from user code and is not trusted.
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

// serveFrame serves HTML, SVG or a chart of a result as a separate document for a frame. In HTML and SVG
// our own script measures it, and its policy lets it load nothing. Its scripts run only if the user allows
// them for this result.
func (s *Server) serveFrame(w http.ResponseWriter, r *http.Request) {
	d, kind, data, err := s.requestedResult(r)
	chart := err == nil && libraryOf(kind) != ""
	if err == nil && !chart && kind != "text/html" && kind != "image/svg+xml" {
		err = session.Errorf(session.KindInvalid, "this result is not a document")
	}
	if err == nil && r.Header.Get("Sec-Fetch-Dest") != "iframe" && r.Header.Get("Sec-Fetch-Dest") != "" {
		err = session.Errorf(session.KindInvalid, "a result can only be shown in a frame")
	}
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	if chart {
		s.serveChartFrame(w, r, d, kind, data)
		return
	}
	run := r.URL.Query().Get("scripts") == "run"
	if !run && kind == "text/html" {
		data = disconnectHTML(data)
	}
	s.setResultPolicy(w.Header(), run)
	_, _ = w.Write(frameDocument(kind, data, run)) // the browser may have gone
}

// setResultPolicy limits what a result's document may do. Without its own scripts, only the script with the
// hash of ours runs.
func (s *Server) setResultPolicy(h http.Header, run bool) {
	const data = "img-src data:; media-src data:; script-src "
	if run {
		s.setFramePolicy(h, "default", data+"'unsafe-inline' 'unsafe-eval'", "") // they may be anything, so what they compile can do no more
		return
	}
	hash := sha256.Sum256([]byte(heightScript))
	s.setFramePolicy(h, "'none'", data+"'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'", "")
}

// setFramePolicy limits what the document of a result or a chart may do. It has no origin: a browser gives
// it another process than the page, which a drawing of 10^10 shapes must not stop. types are the Trusted
// Types policies that it may make, sources are further directives, and connections are patterns of URLs.
//
// No Content-Security-Policy stops WebRTC, or a connection that a link requests in advance. The list of
// connections does, in Chromium since 152. With the list, WebRTC in the srcdoc of a frame has ended the
// whole browser. So no policy of Trusted Types accepts a srcdoc, and the list is never sent without one.
func (s *Server) setFramePolicy(h http.Header, types, sources, connections string) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "+s.Origin()+
		"; sandbox allow-scripts; require-trusted-types-for 'script'; trusted-types "+types+"; "+sources)
	h.Set("Connection-Allowlist", "("+connections+")")
	h.Set("X-DNS-Prefetch-Control", "off")
	h.Set("Content-Type", "text/html; charset=utf-8")
}

// runScript lets scripts of a result make HTML and scripts from strings, except for documents in frames.
const runScript = `window.trustedTypes?.createPolicy("default",{createHTML:(s,_,sink)=>/srcdoc/i.test(sink)?null:s,createScript:(s)=>s,createScriptURL:(s)=>s});`

// heightScript tells the page the height of the whole document in pixels whenever it changes. The box of the
// root shrinks with the contents; what overflows it, such as placed elements, counts until the width
// changes. A height such as 110vh follows the frame, so there is an end of messages for each width.
const heightScript = `{const root=document.documentElement;let width,least,left;` +
	`const tell=()=>{if(innerWidth!==width){width=innerWidth;least=0;left=50}if(left--<=0)return;` +
	`if(root.scrollHeight>innerHeight)least=root.scrollHeight;parent.postMessage({height:Math.max(least,root.offsetHeight)},"*")};` +
	`addEventListener("DOMContentLoaded",()=>{new ResizeObserver(tell).observe(root);addEventListener("resize",tell)})}`

var connectingTags = text.Pattern(`(?i)<(link|meta|iframe)`)

// disconnectHTML returns HTML without elements that could open a connection or move the frame: no policy
// stops a link that requests a connection, or such a link in the srcdoc of a frame. Links and meta
// elements have no other use here; a frame gets its document once scripts may run.
func disconnectHTML(html []byte) []byte {
	return connectingTags().ReplaceAllFunc(html, func(tag []byte) []byte {
		if len(tag) == len("<iframe") {
			return []byte("<x-iframe")
		}
		return []byte("<wbr") // an element without content, too
	})
}

// frameStyle makes a result's document look like paper, or like the web UI if it sets no colours.
const frameStyle = `<style>html{font:13px/1.45 system-ui,"Segoe UI",Roboto,"Liberation Sans",sans-serif;color:#22252a;background:#fff}` +
	`body{margin:8px}img{max-width:100%;height:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}` +
	`th,td{padding:2px 10px;text-align:right;border:0;border-bottom:1px solid #e2ddd2}thead th{border-bottom:1px solid #888;font-weight:600}tbody tr:hover{background:#8882}</style>`

const themedStyle = `<style>@media(prefers-color-scheme:dark){html{color:#e4e2dc;background:#1b1e22}th,td{border-color:#30353b}}</style>`

// frameDocument returns an HTML document for a frame.
func frameDocument(kind string, data []byte, run bool) []byte {
	var b bytes.Buffer
	b.WriteString("<!doctype html><meta charset=utf-8><title>a result</title><script>" + heightScript + "</script>" + frameStyle)
	if run {
		b.WriteString("<script>" + runScript + "</script>")
	}
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

// serveExport serves a session as a file for download.
func (s *Server) serveExport(w http.ResponseWriter, r *http.Request) {
	name, format := r.PathValue("session"), r.URL.Query().Get("format")
	now, err := s.options.Link.Session(name).Info(r.Context())
	if err == nil && !slices.Contains(s.options.Formats(now.Language), format) {
		err = session.Errorf(session.KindInvalid, "unknown format %q for this session", format)
	}
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+name+"."+format+`"`)
	if err := s.options.Export(r.Context(), w, name, format); err != nil {
		s.log.Warn("download aborted", "session", name, "error", err)
		panic(http.ErrAbortHandler) // breaks the connection, so that the browser does not treat a part as the whole file
	}
}
