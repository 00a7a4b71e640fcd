package cli

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestToken_IsMadeOnceAndForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "private", "token")
	var made [8]string
	var wg sync.WaitGroup
	for i := range made { // several servers may start at the same time
		wg.Go(func() {
			var err error
			if made[i], err = token(path); err != nil {
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
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		i, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := i.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	if left, _ := filepath.Glob(path + "?*"); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestToken_RefusesWhatOthersMayRead(t *testing.T) {
	for _, test := range []struct {
		name       string
		dir, file  os.FileMode
		text, says string
	}{
		{"directory", 0o755, 0o600, "0123456789abcdef", "chmod 700"},
		{"file", 0o700, 0o640, "0123456789abcdef", "chmod 600"},
		{"short", 0o700, 0o600, "0123456789abcde", "16 to 512 characters"},
		{"long", 0o700, 0o600, strings.Repeat("x", 513), "16 to 512 characters"},
		{"lines", 0o700, 0o600, "0123456789abcdef\n0123456789abcdef\n", "one line"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "private")
			path := filepath.Join(dir, "token")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, test.file); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, test.dir); err != nil {
				t.Fatal(err)
			}
			if _, err := token(path); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error with %q", err, test.says)
			}
		})
	}
}

func TestToken_FollowsNoLink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if _, err := token(filepath.Join(dir, "token")); err == nil || !strings.Contains(err.Error(), "no plain file") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestToken_WrittenByAPersonIsTaken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, []byte("a-token-of-my-own\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := token(path); err != nil || got != "a-token-of-my-own" {
		t.Errorf("got %q, %v", got, err)
	}
}
