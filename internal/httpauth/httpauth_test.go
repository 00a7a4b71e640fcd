package httpauth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/internal/httpauth"
)

func newRequest(headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "http://page.localhost:80/", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestRequestOrigin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		headers      []string
		origin, site bool
	}{
		{nil, true, true},
		{[]string{"Origin", "http://page.localhost:80"}, true, true},
		{[]string{"Origin", "http://page.localhost:81"}, false, true},
		{[]string{"Origin", "http://localhost:80"}, false, true},
		{[]string{"Origin", "null"}, false, true},
		{[]string{"Origin", ""}, false, true},
		{[]string{"Origin", "http://page.localhost:80", "Origin", "http://page.localhost:80"}, false, true},
		{[]string{"Sec-Fetch-Site", "same-origin"}, true, true},
		{[]string{"Sec-Fetch-Site", "none"}, true, true},
		{[]string{"Sec-Fetch-Site", "same-site"}, true, false},
		{[]string{"Sec-Fetch-Site", "cross-site"}, true, false},
		{[]string{"Sec-Fetch-Site", "Same-Origin"}, true, false},
		{[]string{"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"}, true, false},
	} {
		r := newRequest(c.headers...)
		if got := httpauth.HasOwnOrigin(r); got != c.origin {
			t.Errorf("%q: own origin is %v", c.headers, got)
		}
		if got := httpauth.HasOwnSite(r); got != c.site {
			t.Errorf("%q: own site is %v", c.headers, got)
		}
	}
}

func TestLoginLinks(t *testing.T) {
	t.Parallel()

	t.Run("accepts each link once", func(t *testing.T) {
		t.Parallel()
		d := httpauth.NewLoginLinks("c")
		link := d.NewLink()
		for _, wrong := range []string{"", link[:len(link)-1], link + "A", "x"} {
			if _, _, ok := d.RedeemLink(wrong); ok {
				t.Errorf("accepted %q", wrong)
			}
		}
		cookie, _, ok := d.RedeemLink(link)
		if !ok || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
			t.Fatalf("redeeming the link: got %v, %v", cookie, ok)
		}
		if _, _, ok := d.RedeemLink(link); ok {
			t.Error("the link was accepted twice")
		}
		r := newRequest()
		r.AddCookie(cookie)
		if token, ok := d.PageToken(r); !ok || token == "" {
			t.Error("the cookie was rejected")
		}
		r.AddCookie(cookie)
		if _, ok := d.PageToken(r); ok {
			t.Error("a request with two cookies was accepted")
		}
		if _, ok := d.PageToken(newRequest("Cookie", "c=x")); ok {
			t.Error("an invalid cookie was accepted")
		}
		if _, ok := httpauth.NewLoginLinks("c").PageToken(r); ok {
			t.Error("the cookie of another LoginLinks was accepted")
		}
	})

	t.Run("expires links and browser sessions", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := httpauth.NewLoginLinks("c")
			old, good := d.NewLink(), ""
			time.Sleep(httpauth.LoginLinkTimeout + time.Second)
			if _, _, ok := d.RedeemLink(old); ok {
				t.Error("an expired link was accepted")
			}
			good = d.NewLink()
			cookie, _, ok := d.RedeemLink(good)
			if !ok {
				t.Fatal("a new link was rejected")
			}
			r := newRequest()
			r.AddCookie(cookie)
			time.Sleep(httpauth.BrowserSessionTimeout - time.Second)
			if _, ok := d.PageToken(r); !ok {
				t.Error("the browser session expired early")
			}
			time.Sleep(httpauth.BrowserSessionTimeout - time.Second)
			if _, ok := d.PageToken(r); !ok {
				t.Error("use does not extend the browser session")
			}
			time.Sleep(httpauth.BrowserSessionTimeout + time.Second)
			if _, ok := d.PageToken(r); ok {
				t.Error("the browser session did not expire")
			}
		})
	})

	t.Run("drops the oldest links and browser sessions", func(t *testing.T) {
		t.Parallel()
		d := httpauth.NewLoginLinks("c")
		first := d.NewLink()
		for range 16 {
			d.NewLink()
		}
		if _, _, ok := d.RedeemLink(first); ok {
			t.Error("the oldest of 17 links was accepted")
		}
		cookie, _, _ := d.RedeemLink(d.NewLink())
		for range 32 {
			d.RedeemLink(d.NewLink())
		}
		r := newRequest()
		r.AddCookie(cookie)
		if _, ok := d.PageToken(r); ok {
			t.Error("the oldest of 33 browser sessions was accepted")
		}
	})
}
