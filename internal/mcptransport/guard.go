package mcptransport

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/httpauth"
)

// A requestGuard admits only requests that carry the token, and refuses requests that a foreign
// web page made a browser send. It reads only the header.
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
		http.Error(w, fmt.Sprintf("the host %q is not a name of this server: use its address, or start it with --http-host", r.Host), http.StatusForbidden)
	case !httpauth.HasOwnOrigin(r):
		http.Error(w, fmt.Sprintf("requests from web pages of %q are not allowed", r.Header.Get("Origin")), http.StatusForbidden)
	case strings.TrimSuffix(r.URL.Path, "/") != Path:
		http.Error(w, "not found: this server answers at "+Path, http.StatusNotFound)
	case !g.isAuthorized(r.Header.Get("Authorization")):
		w.Header().Set("WWW-Authenticate", authChallenge(r))
		w.Header().Set("Connection", "close") // clients without the token hold no connections
		http.Error(w, "missing or wrong token: send the header Authorization: Bearer TOKEN; the server printed the path of its token file when it started", http.StatusUnauthorized)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// isKnownHost reports whether a Host header names this server. It refuses foreign DNS names that
// point here, as in DNS rebinding.
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
