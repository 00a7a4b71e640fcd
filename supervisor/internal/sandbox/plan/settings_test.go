//go:build !windows

package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// The tools and caches that a session sees contain no logins: a file with one is shown without it,
// or not at all.
func TestNewPlan_RedactsToolsAndCaches(t *testing.T) {
	t.Parallel()
	const secret = "s3cretpassword"
	url, npm := "url = https://me:"+secret+"@example.org/x\n", "fund=false\n//registry.example.org/:_authToken="+secret+"\nregistry=https://me:"+secret+"@example.org/\n"
	w := newHomeFixture(t)
	files := map[string]string{
		".cache/pre-commit/repo1/.git/config": url, ".asdf/plugins/nodejs/.git/config": url, ".pyenv/plugins/x/.git/config": url, ".opam/repo/repos-config": url, ".cargo/git/db/x/FETCH_HEAD": url, "go/pkg/mod/cache/vcs/1.info": url,
		".conda/pkgs/urls.txt": "https://example.org/t/" + secret + "/main/x.conda\n", "miniconda3/pkgs/urls.txt": url, ".conda/envs/e/pip.conf": url, ".virtualenvs/v/pip.conf": url, ".pyenv/versions/3/pip.conf": url,
		".nvm/versions/node/v22/etc/npmrc": npm, ".volta/tools/image/node/22/etc/npmrc": npm, ".local/share/mise/installs/node/22/etc/npmrc": npm,
		".conda/envs/e/conda-meta/state": `{"version":1,"env_vars":{"API_KEY":"` + secret + `","PLAIN":"1"}}`, "miniforge3/envs/e/conda-meta/state": `{"env_vars":{"DB":"postgres://me:` + secret + `@example.org/db"}}`,
		".conda/envs/e/etc/conda/activate.d/env_vars.sh": "export API_KEY=" + secret + "\nexport PLAIN=1\n", ".virtualenvs/v/bin/postactivate": "export DB_PASSWORD=" + secret + "\n",
		".cache/pip/http-v2/1/2/3": "authorization: Basic " + secret, ".npm/_cacache/index-v5/1/2/3": `{"metadata":{"reqHeaders":{"authorization":"Bearer ` + secret + `"}}}`, ".cache/pypoetry/cache/repositories/x/_http/1": secret, ".Rprofile": "Sys.setenv(GITHUB_PAT='" + secret + "')\n",
	}
	for _, repository := range []string{ // as made by pip, Bundler, Yarn and others
		".virtualenvs/v/src/x/.git", ".local/share/virtualenvs/v/src/x/.git", ".cache/pypoetry/virtualenvs/v/src/x/.git", ".pyenv/versions/3/src/x/.git", "miniconda3/envs/e/src/x/.git", ".asdf/installs/python/3/src/x/.git",
		".rbenv/versions/3/lib/ruby/gems/3.4.0/cache/bundler/git/x-1", ".asdf/installs/ruby/3/lib/ruby/gems/3.4.0/cache/bundler/git/x-1", ".local/share/mise/installs/ruby/3/lib/ruby/gems/3.4.0/bundler/gems/x/.git", ".gem/ruby/3.4.0/cache/bundler/git/x-1", ".bundle/cache/git/x-1",
		".cache/yarn/v6/.tmp/1/.git", ".bun/install/cache/1.git", ".opam/repo/x/.git", ".cargo/git/checkouts/x-1/abc/.git/modules/x", ".cache/pre-commit/repo1/.git/modules/a/b",
	} {
		files[repository+"/config"] = url
		if !strings.Contains(repository, "/modules/") {
			files[repository+"/FETCH_HEAD"] = url
		}
	}
	for _, environment := range []string{"miniconda3", "miniconda3/envs/e", "miniforge3/envs/e", ".local/share/r-miniconda", ".pixi/envs/e", ".pyenv/versions/3/envs/e"} {
		files[environment+"/pip.conf"] = url
		files[environment+"/etc/conda/activate.d/mine.sh"] = "export API_KEY=" + secret + "\n"
	}
	for _, name := range []string{".npm/_npx/1/package.json", ".bun/install/global/package.json", ".bun/install/global/bun.lock", ".local/share/pnpm/global/5/package.json", ".bun/install/global/bun.lockb"} {
		files[name] = `{"dependencies":{"x":"git+https://me:` + secret + `@example.org/x"}}`
	}
	plain := map[string]string{
		".cache/pre-commit/repo1/main.py": "", ".asdf/plugins/nodejs/bin/install": "", ".asdf/shims/node": "", ".nvm/versions/node/v22/bin/node": "", ".nvm/versions/node/v22/lib/x": "", ".nvm/nvm.sh": "", ".pyenv/versions/3/bin/python": "",
		".nvm/versions/node/v18/etc/npmrc": "fund=false\n", ".virtualenvs/v/src/x/setup.py": "", ".conda/envs/e/bin/python": "", "miniconda3/bin/conda": "", ".cache/pip/wheels/x.whl": "", ".npm/_cacache/content-v2/sha512/1/2/3": "", ".virtualenvs/v/pyvenv.cfg": "",
	}
	for _, all := range []map[string]string{files, plain} {
		for name, text := range all {
			writeText(t, filepath.Join(w.home, name), text)
		}
	}
	o := w.planInput()
	o.Settings = filepath.Join(w.sessions, "settings")
	p, _, err := NewPlan(workspaceSandbox(), o)
	if err != nil {
		t.Fatal(err)
	}
	text := func(name string) (string, bool) {
		path, nearest := filepath.Join(w.home, name), mountlist.Mount{}
		for _, place := range p.Mounts { // parents come first
			if paths.Contains(string(place.Path), path) {
				nearest = place
			}
		}
		switch {
		case nearest.Kind.IsEmptyDir():
			return "", false
		case nearest.Kind == mountlist.ReplacedFile:
			path = string(nearest.Source)
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
