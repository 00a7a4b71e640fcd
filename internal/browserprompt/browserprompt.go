// Package browserprompt asks the user of this machine for an answer on a page in their browser. The
// answer bypasses the program that asked, so a secret reaches neither a model nor its client. A
// Page has the question, and its Answer receives the text. The package does not know what happens
// with it.
//
//	var pages browserprompt.Pages
//	defer pages.Close()
//	address, remove, err := pages.Add(&browserprompt.Page{Title: "…", Prompt: "Password:", Secret: true, Answer: take})
//
// # Goroutines
//
// Once the first page is open, one goroutine accepts connections, and each connection has a
// goroutine. Close ends them all, and waits for the one that accepts. A connection has 10 s for a
// request.
package browserprompt

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

const (
	// maxAnswerBytes bounds an answer, in bytes.
	maxAnswerBytes = 64 << 10

	// maxPages bounds the open pages; beyond that the oldest is closed.
	maxPages = 64

	// requestTimeout bounds one request to a page.
	requestTimeout = 10 * time.Second
)

// ErrQuestionClosed is returned by Page.Answer if the answer is no longer wanted.
var ErrQuestionClosed = errors.New("browserprompt: the question is closed")

var errClosed = errors.New("browserprompt: closed")

// HasBrowser reports whether the user probably has a browser on this machine. If so, the user can
// type a secret into a page, and the program that asked does not get it. getenv returns variables
// of the user's environment, as os.Getenv does.
func HasBrowser(getenv func(name string) string) bool {
	return getenv("SSH_CONNECTION") == "" && hasScreen(getenv)
}

// A Page asks the user for one answer.
type Page struct {
	Title  string // the program and its question, without a full stop
	Prompt string
	Secret bool // not shown while it is typed

	// Choices are the only answers, each with a button. Without them the user types a text.
	Choices []string

	// Form is filled in if it is not nil. The answer is then a valid session.FormAnswer as JSON.
	Form *session.Form

	// Answer receives the answer, 64 KiB at most, in a goroutine of the page. It is called once.
	// The user sees its error.
	Answer func(ctx context.Context, text string) error

	// Decline, if not nil, adds a button that calls it instead of Answer.
	Decline func()
}

// Pages serves pages on the loopback interface. Each has an unguessable address that is valid for
// one answer. The zero value starts to listen when the first page is opened. It is safe for
// concurrent use.
type Pages struct {
	serving sync.WaitGroup

	mu     sync.Mutex
	server *http.Server     // guarded by mu; nil until the first page
	host   string           // guarded by mu; of the address
	open   map[string]*Page // guarded by mu
	tokens []string         // guarded by mu; of open, oldest first
	closed bool             // guarded by mu
}

// Add opens a page and returns its address and a function that closes it. At most 64 are open;
// beyond that the oldest is closed.
func (p *Pages) Add(about *Page) (address string, remove func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", nil, errClosed
	}
	if p.server == nil {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		p.host = listener.Addr().String()
		p.open = make(map[string]*Page)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /ask/{token}", p.servePage)
		mux.HandleFunc("POST /ask/{token}", p.serveAnswer)
		server := &http.Server{
			Handler:     http.NewCrossOriginProtection().Handler(p.guardRequests(p.host, mux)),
			ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: requestTimeout,
			MaxHeaderBytes: 16 << 10,
		}
		p.server = server
		p.serving.Go(func() { _ = server.Serve(listener) })
	}
	if len(p.tokens) == maxPages {
		delete(p.open, p.tokens[0])
		p.tokens = p.tokens[1:]
	}
	token := rand.Text()
	p.open[token] = about
	p.tokens = append(p.tokens, token)
	return "http://" + p.host + "/ask/" + token, func() { p.removePage(token) }, nil
}

// removePage removes a page, once.
func (p *Pages) removePage(token string) (*Page, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	about, ok := p.open[token]
	delete(p.open, token)
	p.tokens = slices.DeleteFunc(p.tokens, func(t string) bool { return t == token })
	return about, ok
}

// Close closes all pages. No page can be opened afterwards.
func (p *Pages) Close() {
	p.mu.Lock()
	p.closed = true
	if p.server != nil {
		_ = p.server.Close()
	}
	p.mu.Unlock()
	p.serving.Wait()
}

// guardRequests rejects requests for another host, which a foreign page sends if its name was made
// to resolve to this machine. It also tells browsers to store nothing.
func (p *Pages) guardRequests(host string, next http.Handler) http.Handler {
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
		r.Body = http.MaxBytesReader(w, r.Body, maxAnswerBytes)
		next.ServeHTTP(w, r)
	})
}

const (
	pageHead = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Turnstone</title>
<style>body{font:1rem/1.5 sans-serif;max-width:34rem;margin:4rem auto;padding:0 1rem}input:not([type=checkbox]),select{font:inherit;width:100%;box-sizing:border-box;padding:.4rem}pre{white-space:pre-wrap}</style>
`
	thanksPage = pageHead + "<p>Thank you. The answer has been handed over; this page can be closed.\n"
)

// renderPage returns the page with the question. It does not use html/template, which would make
// the program 2 MB larger.
func (p *Page) renderPage() string { return p.renderAgain(nil, nil) }

// renderAgain returns the page with the typed values of its form and their errors.
func (p *Page) renderAgain(typed url.Values, wrong map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s<p>%s.</p><form method="post">`, pageHead, html.EscapeString(p.Title))
	prompt := html.EscapeString(p.Prompt)
	if p.Form != nil {
		fmt.Fprintf(&b, "<pre>%s</pre>", prompt)
		writeForm(&b, *p.Form, typed, wrong)
	} else if len(p.Choices) > 0 {
		fmt.Fprintf(&b, "<pre>%s</pre>", prompt)
		for _, choice := range p.Choices {
			choice = html.EscapeString(choice)
			fmt.Fprintf(&b, `<p><button name="answer" value="%s">%s</button></p>`, choice, choice)
		}
	} else {
		kind := "text"
		if p.Secret {
			kind = "password"
		}
		fmt.Fprintf(&b, `<label><pre>%s</pre><input name="answer" autofocus autocomplete="off" type="%s"></label><p><button>Answer</button>`, prompt, kind)
	}
	if p.Decline != nil {
		b.WriteString(` <button name="decline" value="yes">No</button>`)
	}
	b.WriteString("</form>\n")
	return b.String()
}

// openPage returns the open page for a token, or nil.
func (p *Pages) openPage(token string) *Page {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[token]
}

func (p *Pages) servePage(w http.ResponseWriter, r *http.Request) {
	about := p.openPage(r.PathValue("token"))
	if about == nil {
		http.Error(w, closedText, http.StatusGone)
		return
	}
	writePage(w, about.renderPage())
}

const closedText = "This question is closed: it was answered, or the answer is no longer needed."

func (p *Pages) serveAnswer(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the answer cannot be read; it may have at most 64 KiB", http.StatusBadRequest)
		return
	}
	answer := r.PostForm.Get("answer")
	if about := p.openPage(r.PathValue("token")); about != nil && about.Form != nil {
		filled, wrong := parseAnswer(*about.Form, r.PostForm)
		if len(wrong) > 0 {
			writePage(w, about.renderAgain(r.PostForm, wrong))
			return
		}
		answer = filled
	}
	about, ok := p.removePage(r.PathValue("token"))
	if !ok {
		http.Error(w, closedText, http.StatusGone)
		return
	}
	if about.Decline != nil && r.PostForm.Get("decline") != "" {
		about.Decline()
		writePage(w, thanksPage)
		return
	}
	if len(about.Choices) > 0 && !slices.Contains(about.Choices, answer) {
		http.Error(w, "the answer was not accepted: it is not one of the choices", http.StatusBadRequest)
		return
	}
	switch err := about.Answer(r.Context(), answer); {
	case errors.Is(err, ErrQuestionClosed):
		http.Error(w, closedText, http.StatusGone)
	case err != nil:
		http.Error(w, "the answer was not accepted: "+err.Error(), http.StatusInternalServerError)
	default:
		writePage(w, thanksPage)
	}
}

// writePage sends a page. The browser may already have disconnected.
func writePage(w http.ResponseWriter, page string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, page)
}
