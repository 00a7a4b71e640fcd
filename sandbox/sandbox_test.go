package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestSandbox_Validate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		sandbox sandbox.Policy
		want    string
	}{
		{sandbox.Policy{}, "unknown sandbox"},
		{sandbox.Policy{Level: "strict"}, `unknown sandbox "strict"; use read-only, workspace or full`},
		{sandbox.Policy{Level: sandbox.Workspace}, "the network is not set"},
		{sandbox.Policy{Level: sandbox.Workspace, Network: "lan"}, `unknown network "lan"`},
		{sandbox.Policy{Level: sandbox.Full, Writable: []string{"/x"}}, "may read and write everything"},
		{sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone, Hidden: []string{"x"}}, "is not absolute"},
		{sandbox.Policy{Level: sandbox.Full, Readable: []string{"/x"}}, "may read and write everything"},
		{sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone, Readable: []string{"x"}}, "is not absolute"},
		{sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone, Home: "all"}, `unknown home "all"; use documents or tools`},
		{sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, Workspace: "x"}, `the workspace "x" is not an absolute path`},
		{sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, Hosts: []string{"a.org"}}, "hosts need the network list"},
		{sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkList, Hosts: []string{"a.org/x"}}, "is not a host"},
		{sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkList, Hosts: make([]string, 1001)}, "may list 1000 hosts"},
	} {
		spec := workers.Spec{Name: "x", Path: "/bin/x", Sandbox: &row.sandbox}
		if err := spec.Validate(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: got %v, want %q", row.sandbox, err, row.want)
		}
	}
	for _, fine := range []*sandbox.Policy{nil, {Level: sandbox.Full}, {Level: sandbox.Workspace, Network: sandbox.NetworkFull, Workspace: "/x"}, {Level: sandbox.ReadOnly, Network: sandbox.NetworkList, Hosts: []string{"packages", "*.a.org:80"}}} {
		if err := fine.Validate(); err != nil {
			t.Errorf("%+v: got %v, want none", fine, err)
		}
	}
}

func TestSecretVariables(t *testing.T) {
	t.Parallel()

	t.Run("finds keys and variables that lead to keys", func(t *testing.T) {
		t.Parallel()
		got := workers.SecretVariables([]string{"HOME=/h", "GITHUB_TOKEN=x", "PATH=/bin", "openai_api_key=y", "SSH_AUTH_SOCK=/s", "AWS_PROFILE=p", "AWS_SECRET_ACCESS_KEY=s", "KEYBOARD=us", "DB_PASSWORD=z", "GITHUB_TOKEN=again"})
		if want := []string{"GITHUB_TOKEN", "openai_api_key", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("recognizes names and forms of values", func(t *testing.T) {
		t.Parallel()
		for _, secret := range []string{
			"GH_PAT=x", "JWT=x", "SIGNING_KEY=x", "SMTP_PASS=x", "SENTRY_DSN=x", "DB_PW=x", "DB_PWD=x", "OPENAI_KEY=x", "NPM_CONFIG__AUTH=x", "PGPASSWORD=x", "MYSQL_PWD=x", "AUTHTOKEN=x", "TOKEN2=x",
			"AZURE_STORAGE_CONNECTION_STRING=x", "SESSION_COOKIE=x", "DATABASE_URL=x",
			"SSHPASS=x", "HTTP_AUTHORIZATION=x", "PLAIN=Bearer abc", "PLAIN=Server=h;User Id=sa;Password=x;", "PLAIN=DefaultEndpointsProtocol=https;AccountName=a;AccountKey=b==", "PLAIN=https://h/c?sv=1&sig=a%3D", "PLAIN=https://h/x?api_key=a",
			"PLAIN=https://hooks.slack.com/services/T0/B0/x", "PLAIN=sk_live_" + strings.Repeat("a", 24), "PLAIN=hvs." + strings.Repeat("a", 24), "PLAIN=dapi" + strings.Repeat("0", 32), "PLAIN=tskey-auth-a-b", "PLAIN=AGE-SECRET-KEY-1ABC",
			"PLAIN=2kD8fYx91LmQ0aZr7TtBv4Wn6Ue3", "PLAIN=x_2kD8fYx91LmQ0aZr7TtBv4Wn6Ue3",
			"PLAIN=ghp_" + strings.Repeat("a", 36), "PLAIN=eyJhbGciOiJI.eyJzdWIiOiIx.abc", "PLAIN=-----BEGIN OPENSSH PRIVATE KEY-----\nx", "ARGS=--key=sk-proj-" + strings.Repeat("a", 30),
		} {
			if got := workers.SecretVariables([]string{secret}); len(got) != 1 {
				t.Errorf("%s: got %q, want it", secret, got)
			}
		}
		for _, plain := range []string{
			"PWD=/home/u", "OLDPWD=/x", "COMPASS_HOME=/opt/c", "KEYBOARD=us", "PATTERN=x", "PYTHONHASHSEED=0", "HTTPS_PROXY=http://proxy:8080", "PASSENGER_APP_ENV=p", "R_PROFILE_USER=/x",
			"TOKENIZERS_PARALLELISM=false", "SSH_ASKPASS=/usr/bin/x", "GIT_AUTHOR_NAME=a", "XDG_SESSION_PATH=/x", "MONKEYPATCH=1", "PIP_INDEX_URL=https://h/simple", "SAS_HOME=/opt/sas", "KEYMAP=us",
			"GITHUB_SHA=0123456789abcdef0123456789abcdef01234567", "INVOCATION_ID=0123456789ABCDEF0123456789ABCDEF", "SESSION=w0t0p0:3F2504E0-4F89-11D3-9A0C-0305E82C3301", "NAME=MyCompanyProjectWithALongName2024Release", "ARCH=Linux-x86_64-with-glibc2.36",
			"CONFIG=a=1;b=2", "SSH=ssh://git@h/x", "BYPASS=1", "STORE=/nix/store/2kD8fYx91LmQ0aZr7TtBv4Wn6Ue3-x", "CLASS=UserAccountControllerFactory", "QUERY=https://h/x?page=1&signed=no",
			"PATH=/opt/sk-" + strings.Repeat("a", 30) + "/bin",
		} {
			if got := workers.SecretVariables([]string{plain}); len(got) != 0 {
				t.Errorf("%s: got %q, want none", plain, got)
			}
		}
	})
}

func TestLoginVariables(t *testing.T) {
	t.Parallel()
	got := workers.LoginVariables([]string{
		"PIP_INDEX_URL=https://u:p@h/simple", "UV_INDEX=a=https://u:p@h/a b=https://h/b", "MONGODB_URI=mongodb+srv://u:p@ss@h/d", "HTTPS_PROXY=http://u:p@proxy:8080",
		"TOKEN_ALONE=https://abc@h/x", "INDEX=https://abc@h/simple", "GIT=ssh://git@h/x", "URL=http://h:80/a@b", "DATABASE_URL=postgres://u:p@h/d",
		"http_proxy=u:p@ss@proxy:8080", "HTTP_PROXY=proxy:8080", "IMAGE=repo:tag@sha256:abc",
	})
	if want := []string{"PIP_INDEX_URL=https://h/simple", "UV_INDEX=a=https://h/a b=https://h/b", "MONGODB_URI=mongodb+srv://h/d", "HTTPS_PROXY=http://proxy:8080", "INDEX=https://h/simple", "http_proxy=proxy:8080"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
