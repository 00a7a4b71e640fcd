package escapes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A loginFile is a file below a home directory as a client writes it, according to its
// documentation. @ stands for the secret.
type loginFile struct{ name, text string }

var clientLogins = []loginFile{
	// Clouds and platforms.
	{".config/doctl/config.yaml", "access-token: @\n"}, {".config/configstore/update-notifier-vercel.json", `{"token":"@"}`}, {".config/github-copilot/apps.json", `{"github.com:x":{"oauth_token":"@"}}`},
	{".config/gh-copilot/config.yml", "token: @\n"}, {".config/tea/config.yml", "logins:\n- token: @\n"}, {".config/berg-cli/TOKEN", "@"}, {".config/lab/lab.toml", "token = \"@\"\n"},
	{".config/ngrok/ngrok.yml", "authtoken: @\n"}, {".ngrok2/ngrok.yml", "authtoken: @\n"}, {".cloudflared/cert.pem", "-----BEGIN ARGO TUNNEL TOKEN-----\n@\n"}, {".config/flyctl/config.yml", "access_token: @\n"},
	{".render/cli.yaml", "api_key: @\n"}, {".config/exoscale/exoscale.toml", "secret = \"@\"\n"}, {".config/upctl.yaml", "password: @\n"}, {".civo.json", `{"apikeys":{"x":"@"}}`}, {".vultr-cli.yaml", "api-key: @\n"},
	{".config/openstack/clouds.yaml", "clouds:\n  x:\n    auth:\n      password: @\n"}, {".aliyun/config.json", `{"profiles":[{"access_key_secret":"@"}]}`}, {".tccli/default.credential", `{"secretKey":"@"}`}, {".bluemix/config.json", `{"IAMToken":"@"}`},
	{".config/legit/token", "@"}, {".config/sentry/cli.json", `{"token":"@"}`}, {".sentryclirc", "[auth]\ntoken=@\n"}, {".config/stripe/config.toml", "live_mode_api_key = '@'\n"}, {".config/supabase/access-token", "@"}, {".supabase/access-token", "@"},
	{".config/turso/settings.json", `{"token":"@"}`}, {".config/neonctl/credentials.json", `{"access_token":"@"}`}, {".pscale/access-token", "@"}, {".config/planetscale/access-token", "@"}, {".config/deployctl/token", "@"},
	// Models.
	{".modal.toml", "[x]\ntoken_secret = \"@\"\n"}, {".replicate", "@"}, {".together/key", "@"}, {".cohere/config", "@"}, {".config/replicate/hosts", `{"token":"@"}`}, {".ollama/id_ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----\n@\n"}, {".config/io.datasette.llm/keys.json", `{"openai":"@"}`},
	{".aider.conf.yml", "openai-api-key: @\n"}, {".config/aichat/config.yaml", "clients:\n- api_key: @\n"}, {".config/shell_gpt/.sgptrc", "OPENAI_API_KEY=@\n"}, {".config/fabric/.env", "OPENAI_API_KEY=@\n"}, {".config/mods/mods.yml", "api-key: @\n"},
	{".cache/huggingface/stored_tokens", "[x]\nhf_token = @\n"}, {".cache/huggingface/token", "@"}, {".config/kaggle/kaggle.json", `{"key":"@"}`}, {".config/wandb/api_key", "@"}, {".config/dagshub/tokens", "@"}, {".mlflow/credentials", "mlflow_tracking_password = @\n"}, {".lightning/credentials.json", `{"apikey":"@"}`},
	// Languages and packages.
	{".config/go/env", "GOPROXY=https://me:@@example.org\n"}, {".config/NuGet/NuGet.Config", `<add key="ClearTextPassword" value="@"/>`}, {".config/containers/registries.conf.d/x.conf", "@"}, {".config/helm/registry/config.json", `{"auths":{"x":{"auth":"@"}}}`}, {".config/pnpm/auth.ini", "//example.org/:_authToken=@\n"},
	{".bunfig.toml", "[install.registry]\ntoken = \"@\"\n"}, {".config/uv/credentials.toml", "password = \"@\"\n"}, {".local/share/pdm/auth.toml", "password = \"@\"\n"}, {".config/pdm/config.toml", "[repository.x]\npassword = \"@\"\n"}, {".config/twine/pypirc", "password = @\n"}, {".rattler/credentials.json", `{"example.org":{"BearerToken":"@"}}`},
	{".continuum/anaconda-client/tokens/https%3A%2F%2Fapi.anaconda.org.token", "@"}, {".local/share/binstar/https.token", "@"}, {".conda/aau_token", "@"}, {".hex/hex.config", `{api_key,<<"@">>}.`}, {".mix/credentials", "@"}, {".elm/token", "@"}, {".pub-cache/credentials.json", `{"accessToken":"@"}`}, {".config/dart/pub-credentials.json", `{"accessToken":"@"}`},
	{".clojure/tools/auth", "@"}, {".lein/credentials.clj.gpg", "@"}, {".lein/profiles.clj", `{:auth {:password "@"}}`}, {".cabal/config", "password: @\n"}, {".luarocks/upload_config.lua", `key = "@"`}, {".pause", "password @\n"}, {".config/cpanm/auth", "@"},
	{".config/rstudio/rstudio-prefs.json", `{"x":"@"}`}, {".local/share/rstudio/history_database", "@\n"}, {".config/rstudio/connect/accounts", "@"}, {".config/positron/User/globalStorage/state.vscdb", "@"}, {".config/R/httr-oauth", "@"}, {".httr-oauth", "@"}, {".cache/R/httr2/token.rds", "@"}, {".R/rsconnect/accounts/shinyapps.io/x.dcf", "secret: @\n"},
	// Databases.
	{".config/pgcli/history", "@\n"}, {".config/pgcli/config", "[alias_dsn]\nx = postgres://me:@@h/d\n"}, {".mylogin.cnf", "@"}, {".mysqlsh/credentials", "@"}, {".config/mycli/history", "@\n"}, {".mongodb/mongosh/mongosh_repl_history", "@\n"}, {".duckdb/stored_secrets/x.duckdb_secret", "@"}, {".duckdb_history", "@\n"}, {".influxdbv2/configs", "token = \"@\"\n"}, {".cassandra/credentials", "password = @\n"}, {".oracle/credentials", "@"}, {".cockroach-certs/client.root.key", "@"}, {".usql_history", "@\n"}, {".config/usqlpass", "@"}, {".odbc.ini", "PWD = @\n"},
	// Machines.
	{".kube/config", "token: @\n"}, {".minikube/profiles/minikube/client.key", "@"}, {".k3d/kubeconfig.yaml", "@"}, {".talos/config", "key: @\n"}, {".config/argocd/config", "auth-token: @\n"}, {".argocd/config", "auth-token: @\n"}, {".vault_pass", "@"}, {".ansible/vault_password", "@"}, {".vagrant.d/data/vagrant_login_token", "@"}, {".chef/me.pem", "@"}, {".puppetlabs/token", "@"}, {".consul-token", "@"}, {".nomad-token", "@"}, {".config/nats/context/x.json", `{"password":"@"}`}, {".config/teleport/keys/x", "@"}, {".tsh/keys/example.org/me", "@"}, {".step/secrets/key", "@"}, {".mutt/muttrc", "set imap_pass=\"@\"\n"},
	// Keys and passwords.
	{".config/Bitwarden CLI/data.json", `{"accessToken":"@"}`}, {".config/op/config", `{"accounts":[{"key":"@"}]}`}, {".local/share/gopass/stores/mine/x.gpg", "@"}, {".config/keepassxc/keepassxc.ini", "@"}, {".config/rbw/config.json", "@"}, {".lastpass/username", "@"}, {".pki/nssdb/key4.db", "@"}, {".config/age/keys.txt", "AGE-SECRET-KEY-@"}, {".config/sops/age/keys.txt", "AGE-SECRET-KEY-@"}, {".minisign/minisign.key", "@"}, {".signify/key.sec", "@"}, {".electrum/wallets/default_wallet", "@"}, {".bitcoin/wallet.dat", "@"}, {".config/solana/id.json", "[@]"}, {".ethereum/keystore/x", "@"}, {".fetchmailrc", "password '@'\n"}, {".offlineimaprc", "remotepass = @\n"}, {".config/aerc/accounts.conf", "source = imaps://me:@@h\n"}, {".config/himalaya/config.toml", "@"}, {".config/weechat/sec.conf", "@"}, {".config/Element/IndexedDB/x", "@"}, {".config/iamb/profiles/x", "@"}, {".config/Mattermost/Cookies", "@"}, {".zoom/data/zoomus.db", "@"}, {".config/protonvpn/x", "@"}, {".config/tailscale/x", "@"}, {".cisco/vpn/profile.xml", "@"}, {".config/openvpn3/x.json", "@"},
	// Histories and files of editors.
	{".local/share/nvim/shada/main.shada", "@"}, {".local/state/nvim/undo/x", "@"}, {".viminfo", "@"}, {".vim/undo/x", "@"}, {".emacs.d/auto-save-list/x", "@"}, {".emacs.d/network-security.data", "@"}, {".config/emacs/recentf", "@"}, {".local/share/xonsh/history_json/x.json", "@"}, {".local/share/powershell/PSReadLine/ConsoleHost_history.txt", "@\n"}, {".config/nushell/history.txt", "@\n"}, {".local/share/atuin/history.db", "@"}, {".local/state/bash/history", "@\n"}, {".local/state/python_history", "@\n"}, {".irb_history", "@\n"}, {".ghc/ghci_history", "@\n"}, {".scala_history", "@\n"}, {".local/share/radian_history", "@\n"}, {".radian_history", "@\n"}, {".local/share/recently-used.xbel", "@"}, {".xsession-errors", "@"}, {".config/JetBrains/PyCharm2026.1/options/security.xml", "@"}, {".local/share/JetBrains/PyCharm2026.1/x", "@"}, {".config/zed/keychain", "@"}, {".config/sublime-text/Local/Session.sublime_session", "@"}, {".local/share/zed/db/0-stable/db.sqlite", "@"}, {".config/Cursor/User/globalStorage/state.vscdb", "@"}, {".config/Windsurf/User/globalStorage/state.vscdb", "@"}, {".wget-hsts", "@"}, {".curlrc", "user = me:@\n"}, {".wgetrc", "password = @\n"}, {".config/httpie/sessions/example.org/me.json", `{"auth":"@"}`}, {".config/Postman/x", "@"}, {".config/Insomnia/x", "@"},
	// Files next to shown ones: caches and toolchains.
	{".cache/ms-playwright/mcp-chrome-profile/Default/Cookies", "@"}, {".cache/ms-playwright/mcp-chromium-1a2b3c/Default/Login Data", "@"}, {".cache/deno/deno_history.txt", "@\n"}, {".cache/deno/location_data/x/local_storage", "@"},
	{".local/pipx/venvs/tool/pipx_metadata.json", `{"pip_args":["--index-url=https://me:@@example.org/simple"]}`}, {".local/share/pipx/venvs/tool/pipx_metadata.json", `{"pip_args":["--index-url=https://me:@@example.org/simple"]}`}, {".local/share/uv/tools/tool/uv-receipt.toml", "index = [{ url = \"https://me:@@example.org/simple\" }]\n"},
	{".cargo/credentials.toml", "token = \"@\"\n"}, {".julia/config/startup.jl", "ENV[\"KEY\"] = \"@\"\n"}, {".npm/_logs/x.log", "@"}, {".npm/_update-notifier-last-checked", "@"}, {".conda/environments.txt", "@"}, {".config/matplotlib-x/token", "@"}, {".jupyter/lab/user-settings/x", "@"}, {".ipython/profile_default/security/x.json", "@"}, {".gradle/daemon/x.log", "@"}, {".m2/settings-security.xml", "@"}, {".local/share/uv/credentials/x", "@"}, {".local/share/jupyter/notebook_secret", "@"}, {".bundle/config.bak", "@"}, {".gem/credentials.old", "@"},
}

func TestHomeClients(t *testing.T) {
	t.Parallel()

	// Logins of clients are not visible in any way: by their names, in a walk through all visible
	// files, or through other names of the same files. It makes no difference whether they existed
	// when the session started.
	t.Run("hides their logins on every path", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		put := func(l loginFile) {
			writeFile(t, filepath.Join(m.home, l.name), strings.NewReplacer("@@", secret+"@", "@", secret).Replace(l.text))
		}
		for i, l := range clientLogins {
			if i%2 == 0 || i > len(clientLogins)-40 { // those next to shown files
				put(l)
			}
		}
		r := openSession(t, m, newSandbox(m))
		for i, l := range clientLogins {
			if i%2 == 1 {
				put(l)
			}
		}
		r.RunCode(t, tryToReadCode+`
import os
H = `+strconv.Quote(m.home)+`
S = `+strconv.Quote(secret)+`
def ways(name):
    yield H + '/' + name
    for top in '/proc/self/root', '/proc/thread-self/root', '/proc/1/root', '/proc/self/cwd/..': yield top + (H if 'cwd' not in top else '') + '/' + name
    for shown in '.config', '.cache', '.local', 'project', 'named/..': yield H + '/' + shown + '/../' + name
    link = '/tmp/link'
    if os.path.lexists(link): os.unlink(link)
    os.symlink(H, link); yield link + '/' + name
    try: os.link(H + '/' + name, 'hard')
    except OSError: pass
    else: yield 'hard'
    try: yield '/proc/self/fd/%d/%s' % (os.open(H, os.O_RDONLY | os.O_DIRECTORY), name)
    except OSError: pass
def found(name):
    for way in ways(name):
        output = readable(way)
        if S in output: return way
    above = os.path.dirname(H + '/' + name)
    if os.path.isdir(above) and os.path.basename(name) in os.listdir(above): return 'listed in ' + above
`)
		for _, l := range clientLogins {
			if output := r.RunCode(t, "print(found("+strconv.Quote(l.name)+"))").OutputText(timeline.Stdout, timeline.Stderr); output != "None\n" {
				t.Errorf("%s: got %q, want no such file", l.name, output)
			}
		}
		for _, top := range []string{m.home, filepath.Dir(m.home), "/tmp", "/dev", "/run"} {
			output := r.RunCode(t, `
seen = []
for dir, dirs, files in os.walk(`+strconv.Quote(top)+`):
    for f in files:
        try:
            with open(os.open(os.path.join(dir, f), os.O_RDONLY | os.O_NONBLOCK), errors='replace') as text:
                if S in text.read(1 << 20): seen.append(os.path.join(dir, f))
        except OSError: pass
print(seen)
`).OutputText(timeline.Stdout, timeline.Stderr)
			if output != "[]\n" {
				t.Errorf("a walk through %s finds %s", top, output)
			}
		}
	})

	// Tools can create their directories in a home directory that lacks them.
	t.Run("lets tools make their directories", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.home, "rm -r go .cargo")
		r := openSession(t, m, newSandbox(m))
		wantOutput(t, r, `
import os
os.chdir(os.environ['HOME'])
for name in '.npm/_cacache', '.cargo/registry', '.m2/repository', os.environ['GOPATH'] + '/pkg/mod': os.makedirs(name)
print(os.path.isdir('go'))
`, "False")
		if _, err := os.Stat(filepath.Join(m.home, ".npm")); err == nil {
			t.Error("one exists outside as well")
		}
	})
}
