// Package httpauth decides which HTTP requests a server of the user answers. It distinguishes them
// from requests that a foreign web page made a browser send, and reads only the header. It provides
// tokens for programs, and links that log a browser in. It serves nothing itself, and does not know
// the purpose of a request.
//
// Facts about browsers are from the Fetch standard (Origin, Sec-Fetch-Site) and RFC 6265 (cookies,
// which ignore ports).
//
// The package starts no goroutines.
package httpauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// A TokenHash is the hash of a token that a client must know. Comparing hashes does not reveal the
// length of the token.
type TokenHash [sha256.Size]byte

// NewTokenHash returns the hash of a token.
func NewTokenHash(text string) TokenHash { return sha256.Sum256([]byte(text)) }

// Matches reports whether text is the token. It takes the same time for all texts of the same
// length.
func (h TokenHash) Matches(text string) bool {
	given := NewTokenHash(text)
	return subtle.ConstantTimeCompare(given[:], h[:]) == 1
}

// IsLoopback reports whether a host name without a port means this machine, and no DNS server can
// say otherwise.
func IsLoopback(name string) bool {
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

// HasOwnOrigin reports whether a request comes from a program, or from a page of the host that it
// was sent to.
func HasOwnOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// HasOwnSite reports whether a request comes from a page of this origin, or from no page, as far as
// the browser tells. "same-site" is another origin: a page at another port of this host.
func HasOwnSite(r *http.Request) bool {
	sites := r.Header.Values("Sec-Fetch-Site")
	return len(sites) == 0 || len(sites) == 1 && (sites[0] == "same-origin" || sites[0] == "none")
}
