//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain})
}

// readUntil reads events up to the first of a kind, and returns their data by kind.
func readUntil(t *testing.T, lines *bufio.Scanner, last string) (data map[string]string, id string) {
	t.Helper()
	data = map[string]string{}
	kind := ""
	for lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			if kind == "text" {
				var b []byte
				if err := json.Unmarshal([]byte(value), &b); err != nil {
					t.Fatal(err)
				}
				value = string(b)
			}
			if data[kind] += value; kind == last {
				return data, id
			}
		}
	}
	t.Fatalf("the events end with %v: %v", data, lines.Err())
	return nil, ""
}

func TestExample(t *testing.T) {
	t.Parallel()
	spec := python.Spec(python.Options{Dir: t.TempDir()})
	if spec.Err != nil {
		t.Skipf("needs Python: %v", spec.Err)
	}
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	s, err := sup.Open(t.Context(), "main", spec)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(newHandler(s, "secret"))
	t.Cleanup(server.Close)

	call := func(ctx context.Context, method, path, body, lastEvent string) *http.Response {
		r, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Last-Event-ID", lastEvent)
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	if answer := call(t.Context(), "POST", "/run", "print(1)", ""); answer.StatusCode != http.StatusForbidden {
		t.Errorf("without a token: got %s", answer.Status)
	}
	ctx, closePage := context.WithCancel(t.Context())
	page := bufio.NewScanner(call(ctx, "GET", "/events?token=secret", "", "").Body)
	pixel := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n"))
	code := "print('é' * 3)\nname = input('Name? ')\nfrom base64 import b64decode\nclass Image:\n  def _repr_png_(self): return b64decode('" + pixel + "')\nImage()"
	if answer := call(t.Context(), "POST", "/run?token=secret", code, ""); answer.StatusCode != http.StatusOK {
		t.Fatalf("got %s", answer.Status)
	}
	data, id := readUntil(t, page, "text")
	if !strings.HasPrefix(data["text"], "ééé\n") || !strings.Contains(data["input"], "name = input") {
		t.Errorf("got %q", data)
	}
	closePage()
	reopened := bufio.NewScanner(call(t.Context(), "GET", "/events?token=secret", "", id).Body)
	if data, _ := readUntil(t, reopened, "question"); data["question"] != `"Name? "` {
		t.Errorf("got %q", data)
	}
	if answer := call(t.Context(), "POST", "/run?token=secret", "Ada", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("the answer: got %s", answer.Status)
	}
	data, _ = readUntil(t, reopened, "end")
	if data["image"] == "" || strings.Contains(data["text"], "é") {
		t.Errorf("after a reconnect: got %q", data)
	}
}
