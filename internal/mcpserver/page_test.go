package mcpserver_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestPage_SecretBypassesClient(t *testing.T) {
	caps := map[string]any{"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}}}
	runWithTestUser(t, setup{hasBrowser: true}, caps, func(t *testing.T, p *testUser) {
		call := p.startRepl(map[string]any{"input": "secret pw: \nsleep 50ms\nprint after"})
		q := p.waitQuestion(call)
		if q.Mode != "url" || len(q.Schema.Properties) > 0 {
			t.Fatalf("got %+v, want a page", q)
		}
		wantPart(t, readPage(t, q.URL), "pw:", `type="password"`)
		call = p.sendAnswer(call, q, map[string]any{"action": "accept"})
		wantPart(t, submitPage(t, q.URL, url.Values{"answer": {"hunter2"}}), "handed over")
		wantText(t, p.waitResult(call).text(), "[a secret typed by user]\n7 bytes\nafter")
		p.wantNowhere("hunter2")
		wantPart(t, readPage(t, q.URL), "This question is closed")
		wantPart(t, submitPage(t, q.URL, url.Values{"answer": {"x"}}), "This question is closed")
	})
}

func TestPage_RejectsForeignRequests(t *testing.T) {
	t.Parallel()
	c := newClient(t, nil)
	c.caps = map[string]any{"elicitation": map[string]any{"url": map[string]any{}}}
	c.initialize("2025-11-25")
	p := &testUser{client: c}
	call := p.startRepl(map[string]any{"input": "secret pw: "})
	q := p.waitQuestion(call)
	for name, change := range map[string]func(*http.Request){
		"another host":   func(r *http.Request) { r.Host = "evil.example" },
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, q.URL, strings.NewReader("answer=x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		change(r)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: got %s", name, response.Status)
		}
	}
	wantPart(t, submitPage(t, q.URL[:len(q.URL)-1]+"0", url.Values{"answer": {"x"}}), "This question is closed")
	p.sendAnswer(call, q, map[string]any{"action": "decline"})
	wantPart(t, p.waitResult(call).text(), "Interrupted")
	if response, err := http.Get(q.URL); err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusGone {
			t.Errorf("got %s", response.Status)
		}
	}
}

func readPage(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get(address)
	return readBody(t, response, err)
}

func submitPage(t *testing.T, address string, form url.Values) string {
	t.Helper()
	response, err := http.PostForm(address, form)
	return readBody(t, response, err)
}

func readBody(t *testing.T, response *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
