package gate

import (
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// LinkTime is how long a link can be used.
	LinkTime = time.Minute

	// VisitTime is how long a visit lasts without a request.
	VisitTime = 24 * time.Hour

	// maxLinks and maxVisits bound those at a time; beyond them the oldest is over.
	maxLinks  = 16
	maxVisits = 32
)

// A Door lets a person's browser in: a link that can be used once becomes a cookie. It is safe
// for concurrent use.
type Door struct {
	cookie string

	mu     sync.Mutex
	links  []link  // guarded by mu; oldest first
	visits []visit // guarded by mu; oldest first
}

type link struct {
	secret Secret
	made   time.Time
}

// A visit is a browser that was let in.
type visit struct {
	cookie Secret
	token  string // of its pages
	seen   time.Time
}

// NewDoor returns a door. The name of its cookie should have the port, because cookies of one
// host know no ports.
func NewDoor(cookie string) *Door { return &Door{cookie: cookie} }

// Link returns the secret of a new link. It is good for one Enter within LinkTime.
func (d *Door) Link() string {
	text := rand.Text() + rand.Text() // 260 bits
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.links) == maxLinks {
		d.links = d.links[1:]
	}
	d.links = append(d.links, link{NewSecret(text), time.Now()})
	return text
}

// Enter uses up a link and returns the cookie for the browser, and the token for its pages: see Token. ok
// is false when the link was used, is too old, or never was.
func (d *Door) Enter(text string) (c *http.Cookie, token string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.IndexFunc(d.links, func(l link) bool { return l.secret.Is(text) })
	if at < 0 {
		return nil, "", false
	}
	made := d.links[at].made
	d.links = slices.Delete(d.links, at, at+1)
	if time.Since(made) > LinkTime {
		return nil, "", false
	}
	value, token := rand.Text()+rand.Text(), rand.Text()
	if len(d.visits) == maxVisits {
		d.visits = d.visits[1:]
	}
	d.visits = append(d.visits, visit{cookie: NewSecret(value), token: token, seen: time.Now()})
	return &http.Cookie{Name: d.cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}, token, true
}

// Token returns the token that pages of a request's visit put into the header of each call: a
// cookie alone would also come with requests that no page of ours has made, and other servers of the
// host get it. ok is false when
// the request belongs to no visit.
func (d *Door) Token(r *http.Request) (token string, ok bool) {
	cookies := r.CookiesNamed(d.cookie)
	if len(cookies) != 1 {
		return "", false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.visits = slices.DeleteFunc(d.visits, func(v visit) bool { return time.Since(v.seen) > VisitTime })
	for i := range d.visits {
		if d.visits[i].cookie.Is(cookies[0].Value) {
			d.visits[i].seen = time.Now()
			return d.visits[i].token, true
		}
	}
	return "", false
}
