package mcpwire

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// A gate admits only requests with the token. It refuses requests that a foreign web page made
// a browser send. It reads only the header of a request.
type gate struct {
	token [sha256.Size]byte // hashed, so that comparing does not reveal its length
	hosts []string
	next  http.Handler
}

func newGate(token string, hosts []string, next http.Handler) *gate {
	return &gate{token: sha256.Sum256([]byte(token)), hosts: hosts, next: next}
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.knows(r.Host):
		http.Error(w, fmt.Sprintf("the host %q is not this server's: call it by its address, or start it with --http-host", r.Host), http.StatusForbidden)
	case !ownOrigin(r):
		http.Error(w, fmt.Sprintf("requests from pages of %q are not served", r.Header.Get("Origin")), http.StatusForbidden)
	case r.URL.Path != Path:
		http.Error(w, "there is nothing here: this server answers at "+Path, http.StatusNotFound)
	case !g.admits(r.Header.Get("Authorization")):
		w.Header().Set("WWW-Authenticate", challenge(r))
		w.Header().Set("Connection", "close") // strangers keep no connection open
		http.Error(w, "this server wants the header Authorization: Bearer TOKEN; it said when it started which file has the token", http.StatusUnauthorized)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// knows reports whether a Host header names this server. A stranger's DNS name that points
// here is refused.
func (g *gate) knows(host string) bool {
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	return isLoopback(name) || slices.ContainsFunc(g.hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

func isLoopback(name string) bool {
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

// ownOrigin reports whether a request comes from a program, or from this server itself, which
// has no web pages.
func ownOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

func (g *gate) admits(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(given[:], g.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// challenge returns the WWW-Authenticate header for a refused client.
func challenge(r *http.Request) string {
	c := `Bearer realm="turnstone"`
	if r.Header.Get("Authorization") != "" {
		c += `, error="invalid_token"`
	}
	return c
}

// A limited listener has a bounded number of open connections.
type limited struct {
	net.Listener
	open    chan struct{} // holds one token for each open connection
	closing sync.Once
	closed  chan struct{}
}

func limitConnections(l net.Listener, most int) *limited {
	return &limited{Listener: l, open: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept implements net.Listener. It waits while too many connections are open.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &counted{Conn: conn, done: sync.OnceFunc(func() { <-l.open })}, nil
}

// Close implements net.Listener. Open connections stay open.
func (l *limited) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A counted connection counts toward the limit of its listener.
type counted struct {
	net.Conn
	done func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.done()
	return c.Conn.Close()
}
