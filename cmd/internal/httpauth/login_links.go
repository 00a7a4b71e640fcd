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

	// BrowserSessionTimeout is how long a visit lasts without a request.
	BrowserSessionTimeout = 24 * time.Hour

	// maxLinks and maxSessions bound those at a time; beyond them the oldest is over.
	maxLinks    = 16
	maxSessions = 32
)

// A LoginLinks lets a person's browser in: a link that can be used once becomes a cookie. It is safe
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

// A browserSession is a browser that was let in.
type browserSession struct {
	cookie   TokenHash
	token    string // of its pages
	lastUsed time.Time
}

// NewLoginLinks returns a door. The name of its cookie should have the port, because cookies of one
// host know no ports.
func NewLoginLinks(cookie string) *LoginLinks { return &LoginLinks{cookie: cookie} }

// NewLink returns the secret of a new link. It is good for one Enter within LoginLinkTimeout.
func (d *LoginLinks) NewLink() string {
	text := rand.Text() + rand.Text() // 260 bits
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.links) == maxLinks {
		d.links = d.links[1:]
	}
	d.links = append(d.links, loginLink{NewTokenHash(text), time.Now()})
	return text
}

// RedeemLink uses up a link and returns the cookie for the browser, and the token for its pages: see Token. ok
// is false when the link was used, is too old, or never was.
func (d *LoginLinks) RedeemLink(text string) (c *http.Cookie, token string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.IndexFunc(d.links, func(l loginLink) bool { return l.secret.Matches(text) })
	if at < 0 {
		return nil, "", false
	}
	made := d.links[at].created
	d.links = slices.Delete(d.links, at, at+1)
	if time.Since(made) > LoginLinkTimeout {
		return nil, "", false
	}
	value, token := rand.Text()+rand.Text(), rand.Text()
	if len(d.sessions) == maxSessions {
		d.sessions = d.sessions[1:]
	}
	d.sessions = append(d.sessions, browserSession{cookie: NewTokenHash(value), token: token, lastUsed: time.Now()})
	return &http.Cookie{Name: d.cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}, token, true
}

// PageToken returns the token that pages of a request's visit put into the header of each call: a
// cookie alone would also come with requests that no page of ours has made, and other servers of the
// host get it. ok is false when
// the request belongs to no visit.
func (d *LoginLinks) PageToken(r *http.Request) (token string, ok bool) {
	cookies := r.CookiesNamed(d.cookie)
	if len(cookies) != 1 {
		return "", false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions = slices.DeleteFunc(d.sessions, func(v browserSession) bool { return time.Since(v.lastUsed) > BrowserSessionTimeout })
	for i := range d.sessions {
		if d.sessions[i].cookie.Matches(cookies[0].Value) {
			d.sessions[i].lastUsed = time.Now()
			return d.sessions[i].token, true
		}
	}
	return "", false
}
