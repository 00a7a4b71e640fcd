// Package gate tells the requests that a server on this machine may answer from those that a
// foreign web page made a browser send. It reads only the header of a request.
//
// Facts about browsers are from the Fetch standard (Origin, Sec-Fetch-Site) and RFC 6265
// (cookies, which know no ports).
//
// It has no goroutines.
package gate

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// A Secret is a text that a client must know, hashed, so that comparing does not reveal its
// length.
type Secret [sha256.Size]byte

// NewSecret returns the secret for a text.
func NewSecret(text string) Secret { return sha256.Sum256([]byte(text)) }

// Is reports whether text is the secret's. It takes the same time for every text of a length.
func (s Secret) Is(text string) bool {
	given := NewSecret(text)
	return subtle.ConstantTimeCompare(given[:], s[:]) == 1
}

// IsLoopback reports whether a host name without a port means this machine, and no DNS server
// can say otherwise.
func IsLoopback(name string) bool {
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

// HasOwnOrigin reports whether a request comes from a program, or from a page of the host that
// it was sent to.
func HasOwnOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// HasOwnSite reports whether a request was not made by a page of another origin, as far as the
// browser tells. "same-site" is one: a page at another port of this host.
func HasOwnSite(r *http.Request) bool {
	sites := r.Header.Values("Sec-Fetch-Site")
	return len(sites) == 0 || len(sites) == 1 && (sites[0] == "same-origin" || sites[0] == "none")
}

// A Listener has a bounded number of open connections. It is made by Limit.
type Listener struct {
	net.Listener
	open    chan struct{} // holds one token for each open connection
	closing sync.Once
	closed  chan struct{}
}

// Limit bounds the connections of a listener that are open at a time.
func Limit(l net.Listener, most int) *Listener {
	return &Listener{Listener: l, open: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept implements net.Listener. It waits while too many connections are open.
func (l *Listener) Accept() (net.Conn, error) {
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
func (l *Listener) Close() error {
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
