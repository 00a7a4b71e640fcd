package browserprompt_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/browserprompt"
)

func TestPage(t *testing.T) {
	t.Run("accepts one answer and only its own host", func(t *testing.T) {
		var pages browserprompt.Pages
		defer pages.Close()
		var got []string
		address, _, err := pages.Add(&browserprompt.Page{Title: "A test asks", Prompt: "<word>", Secret: true, Answer: func(_ context.Context, text string) error {
			got = append(got, text)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(method, host string) (int, string) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(url.Values{"answer": {"x y"}}.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Host = host
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, string(text)
		}
		if status, _ := ask("POST", "elsewhere.example"); status != http.StatusForbidden {
			t.Errorf("another host: got %d", status)
		}
		if status, text := ask("GET", ""); status != http.StatusOK || !strings.Contains(text, `type="password"`) || !strings.Contains(text, "&lt;word&gt;") {
			t.Errorf("the page: got %d, %s", status, text)
		}
		if status, _ := ask("POST", ""); status != http.StatusOK || len(got) != 1 || got[0] != "x y" {
			t.Errorf("the answer: got %d, %q", status, got)
		}
		for _, method := range []string{"GET", "POST"} {
			if status, _ := ask(method, ""); status != http.StatusGone || len(got) != 1 {
				t.Errorf("%s after the answer: got %d, %q", method, status, got)
			}
		}
	})

	t.Run("can be declined if the page offers it", func(t *testing.T) {
		var pages browserprompt.Pages
		defer pages.Close()
		declined := 0
		address, _, err := pages.Add(&browserprompt.Page{Title: "A test asks", Prompt: "Password:", Secret: true, Decline: func() { declined++ }, Answer: func(context.Context, string) error {
			t.Error("Answer was called")
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{http.StatusOK, http.StatusGone} {
			r, err := http.PostForm(address, url.Values{"decline": {"yes"}, "answer": {""}})
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Body.Close()
			if r.StatusCode != want || declined != 1 {
				t.Errorf("got status %d and %d declines", r.StatusCode, declined)
			}
		}
	})
}
