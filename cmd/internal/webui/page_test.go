package webui_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/webui"
)

// A testServer is a web UI without a daemon, for everything that is decided before a daemon call.
type testServer struct {
	t       *testing.T
	server  *webui.Server
	host    string // its name and port
	address string // where it listens
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	link := client.New(client.Socket(filepath.Join(t.TempDir(), "none")), nil)
	t.Cleanup(func() { _ = link.Close() })
	s, err := webui.Listen(t.Context(), &webui.Options{Link: link, Author: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	host := strings.TrimPrefix(s.Origin(), "http://")
	_, port, _ := net.SplitHostPort(host)
	return &testServer{t, s, host, "127.0.0.1:" + port}
}

// sendRequest sends a request. Headers are names and values; Host is the request's.
func (s *testServer) sendRequest(method, path, body string, headers ...string) (status int, answer http.Header, text string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Host = s.host
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(b)
}

// login logs a browser in and returns its cookie and token.
func (s *testServer) login() (cookie, token string) {
	s.t.Helper()
	_, secret, _ := strings.Cut(s.server.NewLoginLink(""), "#")
	status, answer, text := s.sendRequest("POST", "/in", `{"link":"`+secret+`"}`, "Content-Type", "application/json", "Origin", "http://"+s.host, "Sec-Fetch-Site", "same-origin")
	if status != http.StatusOK {
		s.t.Fatalf("a link does not log a browser in: %d %s", status, text)
	}
	cookie, _, _ = strings.Cut(answer.Get("Set-Cookie"), ";")
	_, token, _ = strings.Cut(text, `"token":"`)
	token, _, _ = strings.Cut(token, `"`)
	return cookie, token
}

func TestServer(t *testing.T) {
	t.Parallel()

	// A frame without an origin loads the script of a chart, so it sends no cookie.
	t.Run("serves scripts of charts, and nothing else, to frames without an origin", func(t *testing.T) {
		t.Parallel()
		d := newTestServer(t)
		frame := []string{"Origin", "null", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "script"}
		status, answer, text := d.sendRequest("GET", "/lib/draw.js", "", frame...)
		if status != http.StatusOK || answer.Get("Cross-Origin-Resource-Policy") != "cross-origin" || !strings.Contains(text, "plotly") {
			t.Errorf("draw.js: %d %v", status, answer)
		}
		for _, c := range []struct {
			method, path string
			headers      []string
			want         int
		}{
			{"GET", "/lib/" + strings.Repeat("0", 64) + ".js", frame, http.StatusNotFound},
			{"GET", "/lib/draw", frame, http.StatusNotFound},
			{"GET", "/lib/page.css", frame, http.StatusNotFound},
			{"GET", "/lib/..%2fstatic%2fmain.js", frame, http.StatusNotFound},
			{"POST", "/lib/draw.js", frame, http.StatusForbidden},
			{"GET", "/lib/draw.js", append([]string{"Host", "evil.example"}, frame...), http.StatusMisdirectedRequest},
			{"GET", "/lib/draw.js", []string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
			{"GET", "/lib/draw.js", []string{"Origin", "null", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "empty"}, http.StatusForbidden},
			{"GET", "/static/main.js", frame, http.StatusForbidden},
			{"GET", "/api/sessions", frame, http.StatusForbidden},
			{"GET", "/frame/drawer/" + strings.Repeat("0", 64), frame, http.StatusForbidden},
			{"GET", "/frame/drawer/" + strings.Repeat("0", 64), nil, http.StatusUnauthorized},
			{"GET", "/api/chart/main/1/0", nil, http.StatusUnauthorized},
		} {
			status, answer, _ := d.sendRequest(c.method, c.path, "", c.headers...)
			if status != c.want || answer.Get("Cross-Origin-Resource-Policy") != "same-origin" && status != http.StatusOK {
				t.Errorf("%s %s %v: %d %v, want %d", c.method, c.path, c.headers, status, answer, c.want)
			}
		}
	})

	t.Run("accepts only requests of its own page", func(t *testing.T) {
		t.Parallel()
		d := newTestServer(t)
		cookie, token := d.login()
		mine := []string{"Cookie", cookie, "X-Turnstone-Token", token, "Content-Type", "application/json"}
		const run = `{"session":"main","code":"1"}`
		for _, c := range []struct {
			name   string
			change []string
			want   int
		}{
			{"no faulty header", nil, http.StatusServiceUnavailable}, // the call was accepted, and failed at the missing daemon
			{"its own origin", []string{"Origin", "http://" + d.host, "Sec-Fetch-Site", "same-origin"}, http.StatusServiceUnavailable},
			{"rebinding", []string{"Host", "evil.example"}, http.StatusMisdirectedRequest},
			{"the address as a host", []string{"Host", d.address}, http.StatusMisdirectedRequest},
			{"localhost as a host", []string{"Host", "localhost" + d.host[strings.LastIndex(d.host, ":"):]}, http.StatusMisdirectedRequest},
			{"a dot after the host", []string{"Host", strings.Replace(d.host, ".localhost", ".localhost.", 1)}, http.StatusMisdirectedRequest},
			{"a host without its port", []string{"Host", d.host[:strings.LastIndex(d.host, ":")]}, http.StatusMisdirectedRequest},
			{"a host below ours", []string{"Host", "x." + d.host}, http.StatusMisdirectedRequest},
			{"the origin null", []string{"Origin", "null"}, http.StatusForbidden},
			{"the origin of another port", []string{"Origin", "http://" + d.host[:strings.LastIndex(d.host, ":")] + ":1"}, http.StatusForbidden},
			{"a foreign origin", []string{"Origin", "https://evil.example"}, http.StatusForbidden},
			{"a page of another port", []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
			{"a foreign page", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
			{"a foreign page that navigates", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, http.StatusForbidden},
		} {
			status, _, text := d.sendRequest("POST", "/api/run", run, append(c.change, mine...)...)
			if status != c.want {
				t.Errorf("%s: %d %s, want %d", c.name, status, text, c.want)
			}
		}
		for name, headers := range map[string][]string{
			"no cookie":             {"X-Turnstone-Token", token, "Content-Type", "application/json"},
			"a bad cookie":          {"Cookie", cookie[:len(cookie)-1] + "_", "X-Turnstone-Token", token, "Content-Type", "application/json"},
			"two cookies":           {"Cookie", cookie + "; " + cookie, "X-Turnstone-Token", token, "Content-Type", "application/json"},
			"no token":              {"Cookie", cookie, "Content-Type", "application/json"},
			"a bad token":           {"Cookie", cookie, "X-Turnstone-Token", token[1:], "Content-Type", "application/json"},
			"a form":                {"Cookie", cookie, "X-Turnstone-Token", token, "Content-Type", "application/x-www-form-urlencoded"},
			"text that looks plain": {"Cookie", cookie, "X-Turnstone-Token", token, "Content-Type", "text/plain"},
		} {
			if status, _, _ := d.sendRequest("POST", "/api/run", run, headers...); status < 400 || status == http.StatusServiceUnavailable {
				t.Errorf("%s: %d", name, status)
			}
		}
		for _, path := range []string{"/", "/s/main", "/api/sessions", "/blob/main/1/0", "/frame/main/1/0", "/download/main?format=py"} {
			if status, _, _ := d.sendRequest("GET", path, ""); status != http.StatusUnauthorized {
				t.Errorf("GET %s without a browser session: %d", path, status)
			}
		}
		if status, _, _ := d.sendRequest("GET", "/api/run", run, mine...); status != http.StatusMethodNotAllowed && status != http.StatusNotFound {
			t.Errorf("GET of a call that changes something: %d", status)
		}
	})

	t.Run("types keys, shows the screen and reads tables for its own page only", func(t *testing.T) {
		t.Parallel()
		d := newTestServer(t)
		cookie, token := d.login()
		mine := []string{"Cookie", cookie, "X-Turnstone-Token", token, "Content-Type", "application/json"}
		const keys = `{"session":"main","keys":"<Down>","secret":true}`
		const rows = `{"session":"main","table":{"handle":"t1","count":50,"sort":{"column":1},"find":"x"}}`
		for _, c := range []struct {
			name, method, path, body string
			headers                  []string
			want                     int
		}{
			{"keys", "POST", "/api/type", keys, mine, http.StatusServiceUnavailable}, // at the missing daemon
			{"keys of another page", "POST", "/api/type", keys, mine[:2], http.StatusForbidden},
			{"keys of a foreign origin", "POST", "/api/type", keys, append([]string{"Origin", "https://evil.example"}, mine...), http.StatusForbidden},
			{"keys by GET", "GET", "/api/type?session=main&keys=x", "", mine, http.StatusMethodNotAllowed},
			{"keys that are no text", "POST", "/api/type", `{"session":"main","keys":1}`, mine, http.StatusBadRequest},
			{"rows of a table", "POST", "/api/table", rows, mine, http.StatusServiceUnavailable},
			{"rows of a table for another page", "POST", "/api/table", rows, mine[:2], http.StatusForbidden},
			{"rows of a table by GET", "GET", "/api/table?session=main", "", mine, http.StatusMethodNotAllowed},
			{"the screen", "GET", "/api/screen?session=main", "", mine, http.StatusServiceUnavailable},
			{"the screen for another page", "GET", "/api/screen?session=main", "", mine[:2], http.StatusForbidden},
		} {
			if status, _, text := d.sendRequest(c.method, c.path, c.body, c.headers...); status != c.want {
				t.Errorf("%s: %d %s, want %d", c.name, status, text, c.want)
			}
		}
	})

	t.Run("rejects missing, double and foreign hosts", func(t *testing.T) {
		t.Parallel()
		d := newTestServer(t)
		for name, head := range map[string]string{
			"HTTP/1.0 without a host": "GET /in HTTP/1.0\r\n\r\n",
			"two hosts":               "GET /in HTTP/1.1\r\nHost: " + d.host + "\r\nHost: " + d.host + "\r\n\r\n",
			"a foreign absolute URL":  "GET http://evil.example/in HTTP/1.1\r\nHost: " + d.host + "\r\n\r\n",
		} {
			conn, err := net.Dial("tcp", d.address)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(conn, head)
			line, _ := bufio.NewReader(conn).ReadString('\n')
			_ = conn.Close()
			if !strings.Contains(line, " 4") {
				t.Errorf("%s: %q", name, line)
			}
		}
	})

	t.Run("accepts a login link once, by POST only", func(t *testing.T) {
		t.Parallel()
		d := newTestServer(t)
		_, secret, _ := strings.Cut(d.server.NewLoginLink("main"), "#")
		secret, session, _ := strings.Cut(secret, "/")
		if session != "main" {
			t.Errorf("the link leads to %q", session)
		}
		for range 3 { // link previews, with the secret where a server would see it
			if status, _, text := d.sendRequest("GET", "/in?"+secret, "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); status != http.StatusOK || strings.Contains(text, secret) {
				t.Errorf("the login page: %d", status)
			}
		}
		post := func(link string) int {
			status, _, _ := d.sendRequest("POST", "/in", `{"link":"`+link+`"}`, "Content-Type", "application/json")
			return status
		}
		if post("") != http.StatusForbidden || post(secret[1:]) != http.StatusForbidden {
			t.Error("a wrong link logs in")
		}
		if post(secret) != http.StatusOK {
			t.Error("the link does not log in after previews and guesses")
		}
		if post(secret) != http.StatusForbidden {
			t.Error("the link logs in twice")
		}
		other := newTestServer(t)
		cookie, _ := d.login()
		if status, _, _ := other.sendRequest("GET", "/api/hello", "", "Cookie", cookie); status != http.StatusUnauthorized {
			t.Errorf("another page takes the cookie: %d", status)
		}
		for _, method := range []string{"GET", "POST"} {
			if status, _, text := d.sendRequest(method, "/api/hello", "{}", "Cookie", cookie, "Content-Type", "application/json"); status < 400 {
				t.Errorf("%s: the cookie alone, which other servers get, opens the API: %d %s", method, status, text)
			}
		}
	})

	t.Run("sends the security headers with every response", func(t *testing.T) {
		t.Parallel()
		d := newTestServer(t)
		for _, path := range []string{"/in", "/", "/static/main.js", "/nothing", "/static/../page.go", "/static/vendor/prism-LICENSE.txt"} {
			status, h, _ := d.sendRequest("GET", path, "")
			for name, want := range map[string]string{
				"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; ",
				"Cross-Origin-Opener-Policy":   "same-origin",
				"Cross-Origin-Resource-Policy": "same-origin",
				"X-Content-Type-Options":       "nosniff",
				"Referrer-Policy":              "no-referrer",
				"Cache-Control":                "no-store",
			} {
				if !strings.HasPrefix(h.Get(name), want) {
					t.Errorf("%s (%d): %s is %q", path, status, name, h.Get(name))
				}
			}
			policy := h.Get("Content-Security-Policy")
			for _, part := range []string{"require-trusted-types-for 'script'", "trusted-types 'none'", "frame-ancestors 'none'", "frame-src http://" + d.host + "/frame/;"} {
				if !strings.Contains(policy, part) {
					t.Errorf("%s: the policy lacks %s", path, part)
				}
			}
		}
	})

	t.Run("needs a daemon connection and a free port", func(t *testing.T) {
		t.Parallel()
		if _, err := webui.Listen(t.Context(), &webui.Options{}); err == nil {
			t.Error("Listen succeeds without a Link")
		}
		d := newTestServer(t)
		port := d.server.Origin()[strings.LastIndex(d.server.Origin(), ":")+1:]
		var n int
		fmt.Sscan(port, &n)
		link := client.New(client.Socket("none"), nil)
		defer link.Close()
		if _, err := webui.Listen(t.Context(), &webui.Options{Link: link, Author: "ada", Port: n}); err == nil {
			t.Errorf("two servers listen at port %d", n)
		}
	})
}

func TestStaticFiles(t *testing.T) {
	t.Parallel()

	// Vendored files have the version, licence and contents of their packages.
	t.Run("match the digests in SOURCES", func(t *testing.T) {
		t.Parallel()
		list, err := os.ReadFile(filepath.Join("static", "vendor", "SOURCES"))
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]string{}
		for line := range strings.Lines(string(list)) {
			if fields := strings.Fields(line); len(fields) == 5 && !strings.HasPrefix(line, "#") {
				said[fields[0]] = fields[4]
			}
		}
		files, err := os.ReadDir(filepath.Join("static", "vendor"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Name() == "SOURCES" {
				continue
			}
			b, err := os.ReadFile(filepath.Join("static", "vendor", f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			name, compressed := strings.CutSuffix(f.Name(), ".gz")
			if compressed {
				z, err := gzip.NewReader(bytes.NewReader(b))
				if err == nil {
					b, err = io.ReadAll(z)
				}
				if err != nil {
					t.Fatal(name, err)
				}
			}
			sum := sha256.Sum256(b)
			if got := hex.EncodeToString(sum[:]); got != said[name] {
				t.Errorf("%s has the digest %s, and SOURCES says %q", name, got, said[name])
			}
			delete(said, name)
		}
		for name := range said {
			t.Errorf("SOURCES lists %s, which does not exist", name)
		}
	})

	t.Run("never touch the document of a result", func(t *testing.T) {
		t.Parallel()
		files, err := filepath.Glob(filepath.Join("static", "*.js"))
		if err != nil {
			t.Fatal(err)
		}
		uses := 0
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			uses += strings.Count(string(b), "contentDocument") + strings.Count(strings.ReplaceAll(string(b), "contentWindow.postMessage(", ""), "contentWindow.")
		}
		if uses != 0 {
			t.Errorf("%d places do", uses)
		}
	})

	// The web UI inserts text as text.
	t.Run("never parse HTML from strings", func(t *testing.T) {
		t.Parallel()
		files, err := filepath.Glob(filepath.Join("static", "*.js"))
		if err != nil || len(files) < 8 {
			t.Fatalf("%v, %v", files, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "srcdoc", "eval(", "new Function", "setTimeout(\"", "DOMParser", "createContextualFragment", "setHTML", "http://", "https://"} {
				if strings.Contains(string(b), banned) {
					t.Errorf("%s uses %s", file, banned)
				}
			}
		}
	})
}
