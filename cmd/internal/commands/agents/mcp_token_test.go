package agents

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/securefile"
)

func TestLoadToken(t *testing.T) {
	t.Run("creates the token once and for its owner only", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state", "private", "token")
		var made [8]string
		var wg sync.WaitGroup
		for i := range made { // several servers may start at the same time
			wg.Go(func() {
				var err error
				if made[i], err = loadToken(path); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, got := range made {
			if got != made[0] || len(got) < 40 {
				t.Errorf("got %q and %q, want one token of 40 characters or more", made[0], got)
			}
		}
		for _, made := range []string{path, filepath.Dir(path)} {
			if err := securefile.Check(made); err != nil {
				t.Error(err)
			}
		}
		if left, _ := filepath.Glob(path + "?*"); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})

	t.Run("refuses a malformed token", func(t *testing.T) {
		for _, test := range []struct{ name, text, says string }{
			{"short", "0123456789abcde", "16 to 512 characters"},
			{"long", strings.Repeat("x", 513), "16 to 512 characters"},
			{"lines", "0123456789abcdef\n0123456789abcdef\n", "one line"},
		} {
			t.Run(test.name, func(t *testing.T) {
				if _, err := loadToken(writeTokenFile(t, test.text)); err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v, want an error with %q", err, test.says)
				}
			})
		}
	})

	t.Run("accepts a token that the user wrote", func(t *testing.T) {
		if got, err := loadToken(writeTokenFile(t, "a-token-of-my-own\r\n")); err != nil || got != "a-token-of-my-own" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// writeTokenFile writes a private file in a private directory.
func writeTokenFile(t *testing.T, text string) (path string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "private")
	if err := securefile.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	f, err := securefile.CreateTemp(dir, "token-")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
