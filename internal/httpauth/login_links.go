package httpauth

import (
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// LoginLinkTimeout is how long a link can be used.
	LoginLinkTimeout = time.Minute

	// BrowserSessionTimeout is how long a browser session lasts without a request.
	BrowserSessionTimeout = 24 * time.Hour

	// maxLinks and maxSessions bound the open links and sessions; beyond that the oldest is closed.
	maxLinks    = 16
	maxSessions = 32
)

// LoginLinks lets the user's browser log in: a link that works once becomes a cookie. It is safe
// for concurrent use.
type LoginLinks struct {
	cookie string

	mu       sync.Mutex
	links    []loginLink      // guarded by mu; oldest first
	sessions []browserSession // guarded by mu; oldest first
}

type loginLink struct {
	secret  TokenHash
	created time.Time
}

// A browserSession is the login of a browser.
type browserSession struct {
	cookie   TokenHash
	token    string // sent by its pages
	lastUsed time.Time
}

// NewLoginLinks returns an empty set of links. The cookie's name should contain the port, because
// cookies of a host ignore ports.
func NewLoginLinks(cookie string) *LoginLinks { return &LoginLinks{cookie: cookie} }

// NewLink returns the secret of a new link. RedeemLink accepts it once within LoginLinkTimeout.
func (ll *LoginLinks) NewLink() string {
	text := rand.Text() + rand.Text() // 260 bits
	ll.mu.Lock()
	defer ll.mu.Unlock()
	if len(ll.links) == maxLinks {
		ll.links = ll.links[1:]
	}
	ll.links = append(ll.links, loginLink{NewTokenHash(text), time.Now()})
	return text
}

// RedeemLink uses up a link and returns the cookie for the browser, and the token for its pages:
// see PageToken. ok is false if the link was used, is too old, or never existed.
func (ll *LoginLinks) RedeemLink(text string) (c *http.Cookie, token string, ok bool) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	at := slices.IndexFunc(ll.links, func(l loginLink) bool { return l.secret.Matches(text) })
	if at < 0 {
		return nil, "", false
	}
	made := ll.links[at].created
	ll.links = slices.Delete(ll.links, at, at+1)
	if time.Since(made) > LoginLinkTimeout {
		return nil, "", false
	}
	value, token := rand.Text()+rand.Text(), rand.Text()
	if len(ll.sessions) == maxSessions {
		ll.sessions = ll.sessions[1:]
	}
	ll.sessions = append(ll.sessions, browserSession{cookie: NewTokenHash(value), token: token, lastUsed: time.Now()})
	return &http.Cookie{Name: ll.cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}, token, true
}

// PageToken returns the token that pages of a request's browser session must send in the header of
// each call. A cookie alone would also come with requests by foreign pages, and other servers of
// the host receive it. ok is false if the request belongs to no browser session.
func (ll *LoginLinks) PageToken(r *http.Request) (token string, ok bool) {
	cookies := r.CookiesNamed(ll.cookie)
	if len(cookies) != 1 {
		return "", false
	}
	ll.mu.Lock()
	defer ll.mu.Unlock()
	ll.sessions = slices.DeleteFunc(ll.sessions, func(v browserSession) bool { return time.Since(v.lastUsed) > BrowserSessionTimeout })
	for i := range ll.sessions {
		if ll.sessions[i].cookie.Matches(cookies[0].Value) {
			ll.sessions[i].lastUsed = time.Now()
			return ll.sessions[i].token, true
		}
	}
	return "", false
}
