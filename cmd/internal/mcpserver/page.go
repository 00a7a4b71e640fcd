package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"html/template"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor"
)

const (
	// maxAnswer bounds what a page takes, in bytes.
	maxAnswer = 64 << 10

	// maxPages bounds the pages that are open; the oldest go first.
	maxPages = 64

	// pageBound bounds one request to a page.
	pageBound = 10 * time.Second
)

// browserHere reports whether a browser of the user can be expected on this
// machine: then a secret can be typed into a page of ours, and the client never has it.
func browserHere() bool {
	return os.Getenv("SSH_CONNECTION") == "" && screenHere()
}

// A page asks a person for one answer.
type page struct {
	About  string
	Prompt string
	Secret bool
	answer func(ctx context.Context, text string) error
}

// pages serves pages on the loopback interface, each under an address that cannot
// be guessed and that is good for one answer. The zero value listens when the
// first one is opened.
type pages struct {
	mu     sync.Mutex
	server *http.Server     // guarded by mu; nil until the first page
	host   string           // guarded by mu; of the address
	open   map[string]*page // guarded by mu
	tokens []string         // guarded by mu; of open, oldest first
	closed bool             // guarded by mu
}

// add opens a page and returns its address and how to close it.
func (p *pages) add(about *page) (address string, remove func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", nil, supervisor.ErrClosed
	}
	if p.server == nil {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		p.host = listener.Addr().String()
		p.open = make(map[string]*page)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /ask/{token}", p.show)
		mux.HandleFunc("POST /ask/{token}", p.accept)
		p.server = &http.Server{
			Handler:     http.NewCrossOriginProtection().Handler(p.guard(p.host, mux)),
			ReadTimeout: pageBound, WriteTimeout: pageBound, IdleTimeout: pageBound,
			MaxHeaderBytes: 16 << 10,
		}
		go func() { _ = p.server.Serve(listener) }() // until close
	}
	if len(p.tokens) == maxPages {
		delete(p.open, p.tokens[0])
		p.tokens = p.tokens[1:]
	}
	token := rand.Text()
	p.open[token] = about
	p.tokens = append(p.tokens, token)
	return "http://" + p.host + "/ask/" + token, func() { p.take(token) }, nil
}

// take removes a page, once.
func (p *pages) take(token string) (*page, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	about, ok := p.open[token]
	delete(p.open, token)
	p.tokens = without(p.tokens, token)
	return about, ok
}

func (p *pages) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.server != nil {
		_ = p.server.Close()
	}
}

// guard refuses what was meant for another host, as a page of elsewhere whose name
// was made to point here sends it, and has browsers keep nothing.
func (p *pages) guard(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != host {
			http.Error(w, "wrong host", http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
		r.Body = http.MaxBytesReader(w, r.Body, maxAnswer)
		next.ServeHTTP(w, r)
	})
}

var pageText = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Turnstone</title>
<style>body{font:1rem/1.5 sans-serif;max-width:34rem;margin:4rem auto;padding:0 1rem}input{font:inherit;width:100%;box-sizing:border-box;padding:.4rem}pre{white-space:pre-wrap}</style>
{{if .}}<p>{{.About}}.</p><form method="post"><label><pre>{{.Prompt}}</pre><input name="answer" autofocus autocomplete="off" type="{{if .Secret}}password{{else}}text{{end}}"></label><p><button>Answer</button></form>
{{else}}<p>Thank you. The answer has been handed over; this page can be closed.
{{end}}`))

func (p *pages) show(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	about := p.open[r.PathValue("token")]
	p.mu.Unlock()
	if about == nil {
		http.Error(w, over, http.StatusGone)
		return
	}
	p.write(w, about)
}

const over = "This question is over: it was answered, or nothing waits for it any more."

func (p *pages) accept(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the answer cannot be read: it may have 64 KiB", http.StatusBadRequest)
		return
	}
	about, ok := p.take(r.PathValue("token"))
	if !ok {
		http.Error(w, over, http.StatusGone)
		return
	}
	switch err := about.answer(r.Context(), r.PostForm.Get("answer")); {
	case errors.Is(err, supervisor.ErrStale):
		http.Error(w, over, http.StatusGone)
	case err != nil:
		http.Error(w, "the answer was not taken: "+err.Error(), http.StatusInternalServerError)
	default:
		p.write(w, nil)
	}
}

func (p *pages) write(w http.ResponseWriter, about *page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = pageText.Execute(w, about) // the browser may have gone
}

// without is names less one.
func without(names []string, name string) []string {
	for i, n := range names {
		if n == name {
			return append(names[:i:i], names[i+1:]...)
		}
	}
	return names
}
