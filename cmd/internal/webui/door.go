package webui

import (
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/httpauth"
)

// maxBodyBytes bounds the body of a request, such as code that a user pastes.
const maxBodyBytes = 8 << 20

// tokenHeader is the HTTP header with the token of a browser session.
const tokenHeader = "X-Turnstone-Token"

//go:embed static
var staticFiles embed.FS

// contentPolicy returns the Content-Security-Policy of the web UI itself. It loads only our own files,
// turns no text into a script, and frames only our documents of results. Pictures of charts are blobs.
func (s *Server) contentPolicy() string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; connect-src 'self'; " +
		"frame-src " + s.Origin() + "/frame/; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
}

// guardRequests refuses requests from other origins, and limits what browsers may do with the answers.
func (s *Server) guardRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", s.contentPolicy())
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "SAMEORIGIN") // for older browsers; the policy's frame-ancestors is more exact
		switch {
		case r.Host != s.hostPort:
			s.rejectRequest(w, r, http.StatusMisdirectedRequest, "wrong_host", "this page has another host name: open the link that repl view printed")
		case !httpauth.HasOwnOrigin(r) && !isLibrary(r):
			s.rejectRequest(w, r, http.StatusForbidden, "origin", "requests from pages of another origin are not served")
		case !httpauth.HasOwnSite(r) && !isLogin(r) && !isLibrary(r):
			s.rejectRequest(w, r, http.StatusForbidden, "origin", "requests from pages of another site are not served")
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
			next.ServeHTTP(w, r)
		}
	})
}

// isLogin reports whether a request opens the login page. The request may come from any site,
// because a login link may be anywhere, and the login page has no data.
func isLogin(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/in" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// isLibrary reports whether a script of a chart's frame is loaded. A frame without an origin sends the
// Origin "null" and counts as another site. The scripts are public.
func isLibrary(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/lib/") && r.Header.Get("Sec-Fetch-Dest") == "script"
}

// rejectRequest answers with an error that programs can read, and logs it.
func (s *Server) rejectRequest(w http.ResponseWriter, r *http.Request, status int, kind, message string) {
	s.log.Info("request refused", "status", status, "from", r.RemoteAddr, "path", r.URL.Path)
	writeError(w, status, kind, message)
}

type errorBody struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, map[string]errorBody{"error": {kind, message}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the browser may have gone
}

// requireSession serves only browsers that have logged in.
func (s *Server) requireSession(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.logins.PageToken(r); ok {
			next(w, r)
			return
		}
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			w.WriteHeader(http.StatusUnauthorized)
			s.serveStatic("closed.html")(w, r)
			return
		}
		s.rejectRequest(w, r, http.StatusUnauthorized, "no_visit", "this browser has not logged in; open a link that repl view prints")
	}
}

// requireToken serves only calls of our own pages. They have the token of the browser session, and a
// call that changes something has a body that no HTML form can send.
func (s *Server) requireToken(next http.HandlerFunc) http.HandlerFunc {
	return s.requireSession(func(w http.ResponseWriter, r *http.Request) {
		token, _ := s.logins.PageToken(r)
		switch {
		case !httpauth.NewTokenHash(token).Matches(r.Header.Get(tokenHeader)):
			s.rejectRequest(w, r, http.StatusForbidden, "token", "the call does not have the token of this browser session; open a link that repl view prints")
		case r.Method == http.MethodPost && !isJSON(r):
			s.rejectRequest(w, r, http.StatusUnsupportedMediaType, "invalid_params", "send application/json")
		default:
			next(w, r)
		}
	})
}

func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// serveLogin logs a browser in that sends a login link. Only the page that sent the link gets the token,
// so a cookie alone does not permit any action.
func (s *Server) serveLogin(w http.ResponseWriter, r *http.Request) {
	if !isJSON(r) {
		s.rejectRequest(w, r, http.StatusUnsupportedMediaType, "invalid_params", "send application/json")
		return
	}
	var p struct {
		Link string `json:"link"`
	}
	if !readJSON(w, r, &p) {
		return
	}
	cookie, token, ok := s.logins.RedeemLink(p.Link)
	if !ok {
		s.rejectRequest(w, r, http.StatusForbidden, "link", "this link has been used or is older than a minute")
		return
	}
	http.SetCookie(w, cookie)
	writeJSON(w, http.StatusOK, map[string]string{"token": token})
}

// serveHello returns the author and version that our own pages show. It needs no daemon.
func (s *Server) serveHello(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"author": s.options.Author, "version": s.options.Version})
}

// readJSON reads a body as JSON. If it cannot, it answers with an error and returns false.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_params", "the body cannot be read: "+err.Error())
		return false
	}
	return true
}

// serveStatic serves one of our own files. Large vendored ones are in the program in compressed form.
func (s *Server) serveStatic(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := path.Join("static", path.Clean("/"+name))
		types := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
		kind, ok := types[path.Ext(name)]
		if !ok {
			writeError(w, http.StatusNotFound, "not_found", "no such page")
			return
		}
		f, err := staticFiles.Open(name)
		compressed := errors.Is(err, fs.ErrNotExist)
		if compressed {
			f, err = staticFiles.Open(name + ".gz")
		}
		if err != nil {
			writeError(w, http.StatusNotFound, "not_found", "no such page")
			return
		}
		defer f.Close()
		if !strings.HasPrefix(kind, "font/") {
			kind += "; charset=utf-8"
		}
		w.Header().Set("Content-Type", kind)
		if compressed {
			w.Header().Set("Content-Encoding", "gzip") // every browser accepts it
		}
		_, _ = io.Copy(w, f) // the browser may have gone
	}
}
