//go:build !windows

package confine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlainProfile_EmptiesSecretsAlone(t *testing.T) {
	t.Parallel()
	const token = "ghp_0123456789abcdefghijABCDEFGHIJ"
	for line, want := range map[string]string{
		`options(digits = 7, repos = c(CRAN = "https://cloud.r-project.org"))`:       `options(digits = 7, repos = c(CRAN = "https://cloud.r-project.org"))`,
		`Sys.setenv(GITHUB_PAT = "abc", R_LIBS = "~/R")`:                             `Sys.setenv(GITHUB_PAT = "", R_LIBS = "~/R")`,
		`if (interactive()) { Sys.setenv("API_KEY"='a\'b') }`:                        `if (interactive()) { Sys.setenv("API_KEY"="") }`,
		"  `DB_PASSWORD` <- \"x\"":                                                   "  `DB_PASSWORD` <- \"\"",
		`options(github.token = "x", browser = "firefox")`:                           `options(github.token = "", browser = "firefox")`,
		`login("` + token + `")`:                                                     ``,
		`# don't forget: key = "` + token + `"`:                                      `# don't forget: key = ""`,
		`options(repos = c(ours = "https://me:secret@cran.example.org"))`:            `options(repos = c(ours = "https://cran.example.org"))`,
		`setHook(packageEvent("tidyverse", "attach"), function(...) cat("hello\n"))`: `setHook(packageEvent("tidyverse", "attach"), function(...) cat("hello\n"))`,
	} {
		if got := string(plainProfile([]byte(line))); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// The tools and caches that a session sees have no logins: a file with one is there without it, or not at all.
func TestNewPlan_LoginsInToolsAndCachesAreLeftOut(t *testing.T) {
	t.Parallel()
	const secret = "s3cretpassword"
	url, npm := "url = https://me:"+secret+"@example.org/x\n", "fund=false\n//registry.example.org/:_authToken="+secret+"\nregistry=https://me:"+secret+"@example.org/\n"
	w := newWorld(t)
	files := map[string]string{
		".cache/pre-commit/repo1/.git/config": url, ".asdf/plugins/nodejs/.git/config": url, ".pyenv/plugins/x/.git/config": url, ".opam/repo/repos-config": url, ".cargo/git/db/x/FETCH_HEAD": url, "go/pkg/mod/cache/vcs/1.info": url,
		".conda/pkgs/urls.txt": "https://example.org/t/" + secret + "/main/x.conda\n", "miniconda3/pkgs/urls.txt": url, ".conda/envs/e/pip.conf": url, ".virtualenvs/v/pip.conf": url, ".pyenv/versions/3/pip.conf": url,
		".nvm/versions/node/v22/etc/npmrc": npm, ".volta/tools/image/node/22/etc/npmrc": npm, ".local/share/mise/installs/node/22/etc/npmrc": npm,
		".conda/envs/e/conda-meta/state": `{"version":1,"env_vars":{"API_KEY":"` + secret + `","PLAIN":"1"}}`, "miniforge3/envs/e/conda-meta/state": `{"env_vars":{"DB":"postgres://me:` + secret + `@example.org/db"}}`,
		".conda/envs/e/etc/conda/activate.d/env_vars.sh": "export API_KEY=" + secret + "\nexport PLAIN=1\n", ".virtualenvs/v/bin/postactivate": "export DB_PASSWORD=" + secret + "\n",
		".cache/pip/http-v2/1/2/3": "authorization: Basic " + secret, ".cache/pypoetry/cache/repositories/x/_http/1": secret, ".Rprofile": "Sys.setenv(GITHUB_PAT='" + secret + "')\n",
	}
	plain := map[string]string{
		".cache/pre-commit/repo1/main.py": "", ".asdf/plugins/nodejs/bin/install": "", ".asdf/shims/node": "", ".nvm/versions/node/v22/bin/node": "", ".nvm/versions/node/v22/lib/x": "", ".nvm/nvm.sh": "", ".pyenv/versions/3/bin/python": "",
		".nvm/versions/node/v18/etc/npmrc": "fund=false\n", ".conda/envs/e/bin/python": "", "miniconda3/bin/conda": "", ".cache/pip/wheels/x.whl": "", ".virtualenvs/v/pyvenv.cfg": "",
	}
	for _, all := range []map[string]string{files, plain} {
		for name, text := range all {
			touch(t, filepath.Join(w.home, name), text)
		}
	}
	o := w.origin()
	o.Settings = filepath.Join(w.sessions, "settings")
	p, _, err := NewPlan(workspace(), o)
	if err != nil {
		t.Fatal(err)
	}
	text := func(name string) (string, bool) {
		path, nearest := filepath.Join(w.home, name), Place{}
		for _, place := range p.Places { // parents come first
			if inside(path, string(place.Path)) {
				nearest = place
			}
		}
		switch {
		case nearest.Kind.isEmpty():
			return "", false
		case nearest.Kind == replaced:
			path = string(nearest.From)
		}
		read, err := os.ReadFile(path)
		return string(read), err == nil
	}
	for name := range files {
		if got, _ := text(name); strings.Contains(got, secret) {
			t.Errorf("%s: the session sees %q", name, got)
		}
	}
	for name := range plain {
		if _, seen := text(name); !seen {
			t.Errorf("%s: the session does not see it", name)
		}
	}
	for name, want := range map[string]string{".local/share/mise/installs/node/22/etc/npmrc": "fund=false\nregistry=https://example.org/\n\n", ".conda/envs/e/conda-meta/state": `{"env_vars":{"PLAIN":"1"},"version":1}` + "\n", ".cargo/git/db/x/FETCH_HEAD": "url = https://example.org/x\n\n"} {
		if got, _ := text(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
