package escapes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// logins are files below a home directory in which programs store logins or secret input of the
// user, according to their documentation. None is on a list of the sandbox.
var logins = []string{
	".qwen/oauth_creds.json", ".local/share/opencode/auth.json", ".copilot/config.json", ".continue/config.yaml", ".config/Claude/claude_desktop_config.json",
	".codeium/config.json", ".config/goose/secrets.yaml", ".config/zed/settings.json", ".config/Code/User/globalStorage/state.vscdb", ".vscode-server/data/User/globalStorage/state.vscdb",
	".config/amp/settings.json", ".factory/auth.json", ".config/crush/crush.json", ".kiro/settings.json", ".grok/user-settings.json",
	".cache/R/gargle/token", ".config/R/rsconnect/accounts/shinyapps.io/me.dcf", ".config/rsconnect/accounts/me.dcf", ".local/share/R/keyring/x", ".config/r-keyring/system.keyring",
	".databrickscfg", ".databricks/token-cache.json", ".snowflake/connections.toml", ".snowsql/config", ".dbt/profiles.yml", ".bigqueryrc", ".s3cfg", ".mc/config.json",
	".config/heroku/auth.json", ".config/netlify/config.json", ".fly/config.yml", ".config/vercel/auth.json", ".local/share/com.vercel.cli/auth.json", ".railway/config.json", ".wrangler/config/default.toml", ".config/.wrangler/config/default.toml",
	".config/hcloud/cli.toml", ".linode-cli", ".config/scw/config.yaml", ".pulumi/credentials.json", ".terraformrc", ".ansible/galaxy_token", ".config/configstore/firebase-tools.json",
	".local/share/uv/credentials/credentials.toml", ".config/pypoetry/auth.toml", ".config/hatch/config.toml", ".yarnrc.yml", ".config/pip/credentials", ".bundle/config", ".local/share/gem/credentials", ".composer/auth.json", ".config/composer/auth.json", ".nuget/NuGet/NuGet.Config",
	".julia/servers/pkg.julialang.org/auth.toml", ".julia/logs/repl_history.jl", ".cargo/config.toml", ".sbt/.credentials", ".ivy2/.credentials",
	".mozilla-snap/cookies.sqlite", "snap/firefox/common/.mozilla/firefox/x/cookies.sqlite", ".var/app/org.mozilla.firefox/cookies.sqlite", ".config/vivaldi/Default/Cookies", ".config/opera/Cookies",
	".local/share/fish/fish_history", ".local/share/atuin/key", ".local/share/jupyter/runtime/jpserver-1.json", ".local/share/jupyter/jupyter_cookie_secret", ".jupyter/jupyter_server_config.json", ".ipython/profile_default/history.sqlite",
	".lesshst", ".sqlite_history", ".rediscli_history", ".mongorc.js", ".wakatime.cfg", ".config/wandb/settings", ".config/neptune/token", ".comet.config", ".clearml.conf", ".openai", ".config/openai.token", ".config/Slack/Cookies", ".config/discord/Cookies", ".config/Signal/config.json",
	".local/share/TelegramDesktop/key_datas", ".irssi/config", ".msmtprc", ".mbsyncrc", ".config/neomutt/neomuttrc", ".authinfo.gpg", ".authinfo", ".smbcredentials", ".config/rclone-other/rclone.conf", ".config/filezilla/sitemanager.xml", ".putty/sessions/x", ".config/remmina/x.remmina",
	".c15t/config.json", ".transloadit/credentials", ".apocpass", ".base44/auth/auth.json", ".config/make-cli/config.json", ".config/neon/credentials.json", ".nemoclaw/credentials.json", ".coreorc", ".config/s2/config.toml", ".ballistics/credentials.toml",
	".modal.toml", "_netrc", ".runpod/config.toml", ".lightning/credentials.json", ".config/dvc/config", ".config/kaggle/kaggle.json", ".cache/huggingface/stored_tokens", ".ollama/id_ed25519",
	".hex/hex.config", ".opam/plugins/opam-publish/me.token", ".pub-cache/credentials.json", ".config/dart/pub-credentials.json", ".lein/credentials.clj.gpg", ".luarocks/upload_config.lua", ".stack/upload/credentials.json", ".cabal/config", ".rattler/credentials.json", ".pixi/config.toml", ".continuum/anaconda-client/tokens/x.token", ".config/binstar/config.yaml", ".bunfig.toml", ".config/pnpm/rc",
	".doppler/.doppler.yaml", ".config/ngrok/ngrok.yml", ".config/stripe/config.toml", ".supabase/access-token", ".config/turso/settings.json", ".sentryclirc", ".circleci/cli.yml", ".travis/config.yml", ".jfrog/jfrog-cli.conf.v6", ".config/argocd/config", ".tsh/keys/x", ".cloudflared/cert.pem", ".vagrant.d/data/vagrant_login_token", ".chef/credentials",
	".m2/settings-security.xml", ".gradle/init.d/login.gradle", ".sbt/1.0/credentials.sbt", ".dotnet/corefx/cryptography/x509stores/my/x.pfx", ".local/share/quarto/publish/accounts/x.json", ".local/share/rstudio/sources/x", ".ipython/profile_default/security/x.json", ".local/share/jupyter/nbsignatures.db", ".cache/pip/http-v2/0/1/2/x",
	"id_rsa", "client_secret_1.apps.json", "credentials.json", "token.json", "rootkey.csv", "Vault.kdbx", "airflow/airflow.cfg", "Maildir/new/1", "mbox", "Zotero/zotero.sqlite",
	".bash_profile", ".zshenv", ".config/environment.d/keys.conf", ".config/fish/config.fish", ".envrc", ".env",
}

const tryToReadCode = `
def readable(path):
    try:
        with open(path, errors='replace') as f: return 'open: ' + f.read()
    except OSError as e: return 'held: ' + str(e)
`

func TestHome(t *testing.T) {
	t.Parallel()

	// Files in which programs store logins are not visible, even if the programs are unknown. It
	// makes no difference whether the files existed when the session started.
	t.Run("hides logins that are on no list", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		half := len(logins) / 2
		for _, name := range logins[:half] {
			writeFile(t, filepath.Join(m.home, name), secret)
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, tryToReadCode)
		for _, name := range logins[half:] {
			writeFile(t, filepath.Join(m.home, name), secret)
		}
		for _, name := range logins {
			path := filepath.Join(m.home, name)
			if output := r.RunCode(t, "print(readable('"+path+"'))").OutputText(timeline.Stdout, timeline.Stderr); !strings.Contains(output, "held: ") || strings.Contains(output, secret) {
				t.Errorf("%s: got %q, want it held", name, output)
			}
		}
	})

	t.Run("keeps what outside programs replace hidden", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, tryToReadCode)
		for _, c := range fileReplacements {
			t.Run(c.what, func(t *testing.T) {
				m.outsideDoes(t, m.home, c.outside)
				output := r.RunCode(t, "print(readable('"+filepath.Join(m.home, c.path)+"'))").OutputText(timeline.Stdout, timeline.Stderr)
				if output == "" || strings.Contains(output, secret) {
					t.Errorf("got %q, want no content", output)
				}
			})
		}
	})

	// Code finds the files of the home directory that it needs.
	t.Run("shows documents, tools and plain settings", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for name, text := range map[string]string{
			".pyenv/version": "3.14", ".Rprofile": "options(digits=7)", "data/deep/numbers.csv": "1,2", ".foreign/bin/tool": "#!", ".foreign/lib/library": "code", ".foreign/token": secret,
			".gitconfig":           "[user]\n\tname = \"A \\\"B\\\" C\" ; a comment\n\temail = a@example.org\n[credential]\n\thelper = !echo " + secret + "\n[include]\n\tpath = .gitmore\n[core]\n\texcludesFile = ~/.ignored\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired\n[filter \"x\"]\n\tclean = openssl -k " + secret + "\n",
			".ignored":             "*.scratch\n",
			".gitmore":             "[init]\n\tdefaultBranch = trunk\n[url \"https://me:" + secret + "@example.org/\"]\n\tinsteadOf = https://example.org/\n",
			".Renviron":            "R_LIBS_SITE=/opt/r\nGITHUB_PAT=" + secret + "\n",
			".config/pip/pip.conf": "[global]\nindex-url = https://me:" + secret + "@pypi.example.org/simple\n",
			".condarc":             "channels:\n  - https://conda.example.org/t/" + secret + "/main\n",
		} {
			writeFile(t, filepath.Join(m.home, name), text)
		}
		for link, to := range map[string]string{"linked": "data/deep", "keys": ".ssh", ".inputrc": "data/deep/numbers.csv"} {
			if err := os.Symlink(to, filepath.Join(m.home, link)); err != nil {
				t.Fatal(err)
			}
		}
		for i, kv := range m.env {
			if path, ok := strings.CutPrefix(kv, "PATH="); ok {
				m.env[i] = "PATH=" + filepath.Join(m.home, ".foreign/bin") + ":" + path
			}
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, tryToReadCode+"import os, subprocess\nos.chdir(os.environ['HOME'])")
		for _, c := range []struct{ what, code, want string }{
			{"a document", "print(readable('note.txt'))", "open: a note"},
			{"a document deep down", "print(readable('data/deep/numbers.csv'))", "open: 1,2"},
			{"a link to a document", "print(readable('linked/numbers.csv'))", "open: 1,2"},
			{"a link to keys leads nowhere", "print(readable('keys/id_ed25519'))", "held: [Errno 2] No such file or directory: 'keys/id_ed25519'"},
			{"a setting that is a link", "print(readable('.inputrc'))", "open: 1,2"},
			{"a toolchain", "print(readable('.pyenv/version'))", "open: 3.14"},
			{"the profile of R", "print(readable('.Rprofile'))", "open: options(digits=7)"},
			{"a directory of the PATH", "print(readable('.foreign/bin/tool'))", "open: #!"},
			{"the libraries next to it", "print(readable('.foreign/lib/library'))", "open: code"},
			{"nothing else there", "print(os.path.exists('.foreign/token'))", "False"},
			{"the name in git", "print(subprocess.run(['git', 'config', 'user.name'], capture_output=True, text=True).stdout)", `A "B" C`},
			{"an included setting of git", "print(subprocess.run(['git', 'config', 'init.defaultBranch'], capture_output=True, text=True).stdout)", "trunk"},
			{"what the user ignores everywhere", "print(subprocess.run(['git', 'check-ignore', 'a.scratch'], cwd='project', capture_output=True, text=True).stdout)", "a.scratch"},
			{"the filter of LFS", "print(subprocess.run(['git', 'config', 'filter.lfs.clean'], capture_output=True, text=True).stdout)", "git-lfs clean -- %f"},
			{"no address of git's", "print(subprocess.run(['git', 'config', '--global', '--get-regexp', 'url|credential|include|filter.x'], capture_output=True, text=True).stdout)", ""},
			{"variables of R", "print(readable('.Renviron'))", "open: R_LIBS_SITE=/opt/r"},
			{"the registry of pip", "print(readable('.config/pip/pip.conf'))", "open: [global]\nindex-url = https://pypi.example.org/simple"},
			{"the channels of conda", "print(readable('.condarc'))", "open: channels:\n  - https://conda.example.org/t//main"},
			{"new settings of a tool", "open('.config/newtool', 'w').write('x'); print(readable('.config/newtool'))", "open: x"},
			{"a new file in the home directory", "\ntry: open('new', 'w')\nexcept OSError as e: print(e)", "[Errno 30] Read-only file system: 'new'"},
		} {
			t.Run(c.what, func(t *testing.T) {
				if output := r.RunCode(t, c.code).OutputText(timeline.Stdout, timeline.Stderr); strings.TrimSpace(output) != c.want {
					t.Errorf("got %q, want %q", output, c.want)
				}
			})
		}
	})

	// A file that is made in the home directory while a session runs is not visible. The first
	// error that names it is explained.
	t.Run("explains a file that was made later", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		writeFile(t, filepath.Join(m.home, "later.csv"), "1,2")
		explained := `[notice "the sandbox does not show ` + m.home + `/later.csv, if it exists; the user can allow it with: repl grant ` + r.Name() + ` --read ` + m.home + `/later.csv"]`
		for _, c := range []struct {
			code string
			want int
		}{
			{"open('" + m.home + "/project/typo.csv')", 0},
			{"open('" + m.home + "/.ssh/id_ed25519')", 0}, // hidden files have their own explanation
			{"open('" + m.home + "/later.csv')", 1},
			{"open('" + m.home + "/later.csv')", 0}, // only once
		} {
			if got := strings.Count(r.RunCode(t, c.code).Transcript(), explained); got != c.want {
				t.Errorf("%s: got %d notices, want %d", c.code, got, c.want)
			}
		}
	})

	// A virtual environment in the workspace may lead to its interpreter through links that the
	// home directory does not show. They are shown to its session, but nothing next to them.
	t.Run("shows links on the way to the interpreter", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		writeFile(t, filepath.Join(m.home, ".pythons/one/bin/key"), secret)
		writeFile(t, filepath.Join(m.home, ".alias/key"), secret)
		m.outsideDoes(t, m.home, "ln -s "+interpreter+" .pythons/one/bin/python3 && ln -s .pythons/one .current && ln -s ../.current/bin/python3 .alias/python && mkdir -p project/.venv/bin && ln -s "+m.home+"/.alias/python project/.venv/bin/python && ln -s python project/.venv/bin/python3")
		spec := python.Spec(python.Options{Path: filepath.Join(m.work, ".venv/bin/python")})
		spec.Dir, spec.Sandbox = m.work, newSandbox(m)
		r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: m.env}, spec)
		r.WaitUntilReady(t)
		wantOutput(t, r, "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True).stdout)", "42")
		wantOutput(t, r, "import os; print([os.listdir(os.environ['HOME'] + d) for d in ('/.alias', '/.pythons', '/.pythons/one/bin')])", "[['python'], ['one'], ['python3']]")
		wantOutput(t, r, "try: os.symlink('/tmp/other', os.environ['HOME'] + '/.alias/more')\nexcept OSError as e: print(e.strerror)", "Read-only file system")
	})
}

// fileReplacements are changes to files by programs outside while a session runs, with the path of
// the file.
var fileReplacements = []struct{ what, outside, path string }{
	{"a rename over a file that is hidden", `printf '%s' "$SECRET" > .netrc.tmp && mv .netrc.tmp .netrc`, ".netrc"},
	{"a removal and a new file", `rm .netrc && printf '%s' "$SECRET" > .netrc`, ".netrc"},
	{"a file that was not there", `printf '%s' "$SECRET" > .pypirc`, ".pypirc"},
	{"a login of git's", `printf 'protocol=https\nhost=example.org\nusername=me\npassword=%s\n' "$SECRET" | git credential-store store`, ".git-credentials"},
	{"a directory that was not there", `mkdir .azure && printf '%s' "$SECRET" > .azure/token`, ".azure/token"},
	{"a directory that is made again", `mv .ssh old-ssh && mkdir .ssh && cp old-ssh/* .ssh/`, ".ssh/id_ed25519"},
	{"a directory that is moved to another name", `true`, "old-ssh/id_ed25519"},
	{"a directory in the settings", `mkdir -p .config/newtool && printf '%s' "$SECRET" > .config/newtool/token`, ".config/newtool/token"},
	{"a file in the settings that is replaced", `printf '%s' "$SECRET" > .config/gh/x && mv .config/gh/x .config/gh/hosts.yml`, ".config/gh/hosts.yml"},
	{"a file of a client of models", `printf '%s' "$SECRET" > .c && mv .c .claude.json`, ".claude.json"},
	{"a history of a shell", `printf '%s' "$SECRET" > .h && mv .h .bash_history`, ".bash_history"},
	{"a file that the user hides", `printf '%s' "$SECRET" > mine/x && mv mine/x mine/private.txt`, "mine/private.txt"},
	{"a directory that the user hides, made again", `rm -r mine && mkdir mine && printf '%s' "$SECRET" > mine/private.txt`, "mine/private.txt"},
	{"settings of git's with a login", `git config --global url.https://me:$SECRET@example.org/.insteadOf https://example.org/`, ".gitconfig"},
	{"an address of a registry with a login", `mkdir -p .config/pip && printf '[global]\nindex-url = https://me:%s@example.org/\n' "$SECRET" > .config/pip/pip.conf`, ".config/pip/pip.conf"},
}

// outsideDoes runs a script as a program outside, which knows the secret.
func (m *machine) outsideDoes(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+m.home, "SECRET="+secret)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// The worker's environment contains no keys, and addresses without their logins.
func TestVariables_SecretValues(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.env = append(m.env, "GH_PAT="+secret, "PLAIN=ghp_0123456789abcdefghijABCDEFGHIJ", "PIP_INDEX_URL=https://me:"+secret+"@pypi.example.org/simple", "TOKENIZERS_PARALLELISM=false")
	r := openSession(t, m, newSandbox(m))
	wantOutput(t, r, "import os; print(*(os.environ.get(n) for n in ('GH_PAT', 'PLAIN', 'PIP_INDEX_URL', 'TOKENIZERS_PARALLELISM')))", "None None https://pypi.example.org/simple false")
}
