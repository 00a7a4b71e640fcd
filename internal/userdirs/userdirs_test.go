package userdirs_test

import (
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

func TestDirs(t *testing.T) {
	root, err := filepath.Abs(string(filepath.Separator))
	if err != nil {
		t.Fatal(err)
	}
	home, other := filepath.Join(root, "home"), filepath.Join(root, "other")
	for variable, test := range map[string]struct {
		dir  func(getenv func(string) string, home string) string
		want string // below home
	}{
		"XDG_CONFIG_HOME": {userdirs.Config, ".config"},
		"XDG_STATE_HOME":  {userdirs.State, ".local/state"},
		"XDG_CACHE_HOME":  {userdirs.Cache, ".cache"},
		"XDG_DATA_HOME":   {userdirs.Data, ".local/share"},
		"XDG_RUNTIME_DIR": {func(getenv func(string) string, _ string) string { return userdirs.Runtime(getenv) }, ""},
	} {
		usual := ""
		if test.want != "" {
			usual = filepath.Join(home, filepath.FromSlash(test.want))
		}
		for _, c := range []struct{ value, home, want string }{
			{other, home, other},
			{other, "", other},
			{"", home, usual},
			{"", "", ""},
			{"relative", home, usual},
			{"relative", "", ""},
		} {
			getenv := func(name string) string {
				if name == variable {
					return c.value
				}
				return ""
			}
			if got := test.dir(getenv, c.home); got != c.want {
				t.Errorf("%s=%q, home %q: got %q, want %q", variable, c.value, c.home, got, c.want)
			}
		}
	}
}
