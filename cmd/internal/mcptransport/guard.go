package mcptransport

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/httpauth"
)

// A requestGuard admits only requests with the token. It refuses requests that a foreign web page made
// a browser send. It reads only the header of a request.
type requestGuard struct {
	token httpauth.TokenHash
	hosts []string
	next  http.Handler
}

func newRequestGuard(token string, hosts []string, next http.Handler) *requestGuard {
	return &requestGuard{token: httpauth.NewTokenHash(token), hosts: hosts, next: next}
}

// ServeHTTP implements http.Handler.
func (g *requestGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.isKnownHost(r.Host):
		http.Error(w, fmt.Sprintf("the host %q is not this server's: call it by its address, or start it with --http-host", r.Host), http.StatusForbidden)
	case !httpauth.HasOwnOrigin(r):
		http.Error(w, fmt.Sprintf("requests from pages of %q are not served", r.Header.Get("Origin")), http.StatusForbidden)
	case strings.TrimSuffix(r.URL.Path, "/") != Path:
		http.Error(w, "there is nothing here: this server answers at "+Path, http.StatusNotFound)
	case !g.isAuthorized(r.Header.Get("Authorization")):
		w.Header().Set("WWW-Authenticate", authChallenge(r))
		w.Header().Set("Connection", "close") // strangers keep no connection open
		http.Error(w, "this server wants the header Authorization: Bearer TOKEN; it said when it started which file has the token", http.StatusUnauthorized)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// isKnownHost reports whether a Host header names this server. A stranger's DNS name that points
// here is refused.
func (g *requestGuard) isKnownHost(host string) bool {
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	return httpauth.IsLoopback(name) || slices.ContainsFunc(g.hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

func (g *requestGuard) isAuthorized(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	return g.token.Matches(strings.TrimSpace(token)) && strings.EqualFold(scheme, "Bearer")
}

// authChallenge returns the WWW-Authenticate header for a refused client.
func authChallenge(r *http.Request) string {
	c := `Bearer realm="turnstone"`
	if r.Header.Get("Authorization") != "" {
		c += `, error="invalid_token"`
	}
	return c
}
