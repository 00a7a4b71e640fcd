package e2e

import (
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/tests/programs"
)

// A server is a real sshd on the loopback interface, one process for each connection.
type server struct {
	dir  string
	port int
	via  string // with a file of known hosts that knows nobody
	far  home   // where a login arrives
}

func newServer(t *testing.T, passphrase string) *server {
	t.Helper()
	for _, tool := range []string{"/usr/sbin/sshd", "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here: scripts/setup-dev installs it", tool)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd wants it, for the separation of privileges
			t.Fatal(err)
		}
	}
	s := &server{dir: t.TempDir(), far: daemonHome(t)}
	for name, pass := range map[string]string{"host": "", "key": passphrase} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", pass, "-f", filepath.Join(s.dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	env := "PATH=" + filepath.Dir(binary()) + ":/usr/bin:/bin"
	for _, name := range []string{"TMPDIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "REPL_SOCKET"} {
		env += " " + name + "=" + s.far.environment(name)
	}
	s.file(t, "sshd_config", fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/key.pub\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nPrintMotd no\nSetEnv %[2]s\n", s.dir, env))
	s.listen(t)
	s.file(t, "config", fmt.Sprintf("Host far\nHostName 127.0.0.1\nPort %d\nUser %s\nIdentityFile %[3]s/key\nIdentitiesOnly yes\nIdentityAgent none\n"+
		"UserKnownHostsFile %[3]s/known\nGlobalKnownHostsFile /dev/null\n", s.port, me.Username, s.dir))
	s.via = "ssh -F " + filepath.Join(s.dir, "config") + " far"
	return s
}

func (s *server) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// knowsHost has ssh know the server's key.
func (s *server) knowsHost(t *testing.T) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(s.dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	s.file(t, "known", fmt.Sprintf("[127.0.0.1]:%d %s", s.port, key))
}

// listen starts an sshd for each connection, as inetd does: so no port is taken twice.
func (s *server) listen(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s.port = listener.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			file, err := conn.(*net.TCPConn).File()
			_ = conn.Close()
			if err != nil {
				return
			}
			sshd := exec.Command("/usr/sbin/sshd", "-i", "-f", filepath.Join(s.dir, "sshd_config"), "-E", filepath.Join(s.dir, "log"))
			sshd.Stdin, sshd.Stdout = file, file
			if sshd.Start() == nil {
				go func() { _ = sshd.Wait() }()
			}
			_ = file.Close()
		}
	}()
}

// withScreen gives a home a screen, with a browser that writes the address of each page it opens
// to a file.
func (h *home) withScreen(t *testing.T) (opened string) {
	t.Helper()
	bin := t.TempDir()
	opened = filepath.Join(bin, "opened")
	script := "#!/bin/sh\naddress=$(sed -n 's/.*location.replace(\"\\([^\"]*\\)\").*/\\1/p' \"$1\") && echo $address >> " + opened + "\n"
	if err := programs.Write(filepath.Join(bin, "xdg-open"), []byte(script)); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "PATH="+bin+":"+h.environment("PATH"), "DISPLAY=:7", "SSH_CONNECTION=", "SSH_AUTH_SOCK=")
	return opened
}

// pages are the addresses that the browser was given.
func pages(opened string) []string {
	text, _ := os.ReadFile(opened)
	return strings.Fields(string(text))
}

// nextPage waits until the browser has n pages, and reads the last.
func nextPage(t *testing.T, opened string, n int) (address, text string) {
	t.Helper()
	eventually(t, "a page is open", func() bool { return len(pages(opened)) >= n })
	address = pages(opened)[n-1]
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return address, string(body)
}

// press answers a page.
func press(t *testing.T, address string, fields url.Values) {
	t.Helper()
	r, err := http.PostForm(address, fields)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("the answer: status %d", r.StatusCode)
	}
}

func (s *server) agent(t *testing.T, h home) *agent {
	t.Helper()
	return newAgent(t, h, "--via", s.via, "--sandbox", "full", "--name", "bot")
}

// finish ends an agent and the daemon at the far side, if there is one.
func (s *server) finish(t *testing.T, a *agent) {
	t.Helper()
	_ = a.in.Close()
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	s.far.run(t, "", "ctl", "stop")
}

func TestAskpass_AHostsKeyIsConfirmedByThePersonAlone(t *testing.T) {
	t.Parallel()
	s, h := newServer(t, ""), daemonHome(t)
	opened := h.withScreen(t)
	a := s.agent(t, h)
	a.send("6 * 7")
	address, page := nextPage(t, opened, 1)
	key, err := exec.Command("ssh-keygen", "-lf", filepath.Join(s.dir, "host.pub")).Output()
	if err != nil {
		t.Fatal(err)
	}
	print := regexp.MustCompile(`SHA256:\S+`).FindString(string(key))
	if print == "" || !strings.Contains(html.UnescapeString(page), print) || !strings.Contains(page, "ssh, which leads to the place") || !strings.Contains(page, "Yes, this is its key") {
		t.Errorf("the page lacks %s: %s", print, page)
	}
	press(t, address, url.Values{"answer": {"Yes, this is its key: connect"}})
	got := a.answer()
	if !strings.Contains(got, "42") || strings.Contains(got, "SHA256") || strings.Contains(got, address) {
		t.Errorf("got %q", got)
	}
	if known, err := os.ReadFile(filepath.Join(s.dir, "known")); err != nil || len(known) == 0 {
		t.Errorf("the key is not kept: %v", err)
	}
	if n := len(pages(opened)); n != 1 {
		t.Errorf("the person was asked %d times", n)
	}
	s.finish(t, a)
	if left, _ := filepath.Glob(filepath.Join(h.tmp, "repl-ask-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestAskpass_AHostsKeyThatIsDeclinedEndsInOneQuestion(t *testing.T) {
	t.Parallel()
	s, h := newServer(t, ""), daemonHome(t)
	opened := h.withScreen(t)
	a := s.agent(t, h)
	a.send("6 * 7")
	address, _ := nextPage(t, opened, 1)
	press(t, address, url.Values{"answer": {"No"}})
	for range 2 { // the second call asks nobody again
		got := a.answer()
		if !strings.Contains(got, "Host key verification failed") || !strings.Contains(got, "run "+s.via+" true once at a terminal") {
			t.Errorf("got %q", got)
		}
		if n := len(pages(opened)); n != 1 {
			t.Errorf("the person was asked %d times", n)
		}
		a.send("6 * 7")
	}
	a.answer()
	s.finish(t, a)
}

func TestAskpass_APassphraseGoesToSSHAndNowhereElse(t *testing.T) {
	t.Parallel()
	const secret = `0pen "sesame"`
	s, h := newServer(t, secret), daemonHome(t)
	s.knowsHost(t)
	opened := h.withScreen(t)
	a := s.agent(t, h)
	a.send("6 * 7")
	address, page := nextPage(t, opened, 1)
	if !strings.Contains(page, `type="password"`) || !strings.Contains(page, "Enter passphrase for key") {
		t.Errorf("the page: %s", page)
	}
	press(t, address, url.Values{"answer": {"wrong"}})
	address, _ = nextPage(t, opened, 2)
	press(t, address, url.Values{"answer": {secret}})
	if got := a.answer(); !strings.Contains(got, "42") || strings.Contains(got, "passphrase") {
		t.Errorf("got %q", got)
	}
	s.finish(t, a)
}

func TestAskpass_APassphraseThatIsDeclinedEndsSSH(t *testing.T) {
	t.Parallel()
	s, h := newServer(t, "secret"), daemonHome(t)
	s.knowsHost(t)
	opened := h.withScreen(t)
	a := s.agent(t, h)
	a.send("6 * 7")
	address, _ := nextPage(t, opened, 1)
	press(t, address, url.Values{"decline": {"yes"}})
	if got := a.answer(); !strings.Contains(got, "Permission denied") || !strings.Contains(got, "true once at a terminal") {
		t.Errorf("got %q", got)
	}
	if n := len(pages(opened)); n != 1 {
		t.Errorf("the person was asked %d times", n)
	}
	s.finish(t, a)
}

func TestAskpass_WithoutAScreenTheErrorSaysWhatToRun(t *testing.T) {
	t.Parallel()
	s, h := newServer(t, ""), daemonHome(t)
	h.withScreen(t)
	h.env = append(h.env, "DISPLAY=", "WAYLAND_DISPLAY=")
	a := s.agent(t, h)
	if got := a.repl("6 * 7"); !strings.Contains(got, "Host key verification failed") || !strings.Contains(got, "run "+s.via+" true once at a terminal") {
		t.Errorf("got %q", got)
	}
	s.finish(t, a)
}

func TestPlaceInstall_GoesThroughARealSSH(t *testing.T) {
	t.Parallel()
	s, h := newServer(t, ""), daemonHome(t)
	s.knowsHost(t)
	config, err := os.ReadFile(filepath.Join(s.dir, "sshd_config"))
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	s.file(t, "sshd_config", strings.NewReplacer("PATH="+filepath.Dir(binary())+":", "PATH=", "XDG_CACHE_HOME="+s.far.environment("XDG_CACHE_HOME"), "XDG_CACHE_HOME="+cache).Replace(string(config)))
	if r := h.run(t, "", "list", "--via", s.via); r.status != 3 || !strings.Contains(r.stderr, "repl place install --via '"+s.via+"' brings it there") {
		t.Errorf("before: %v", r)
	}
	if r := h.run(t, "", "place", "install", "--via", s.via); r.status != 0 || !strings.HasPrefix(r.stdout, cache+"/turnstone/bin/repl-") {
		t.Fatalf("got %v", r)
	}
	want(t, h.run(t, "", "exec", "main", "--via", s.via, "-e", "6 * 7"), result{"42\n", newSession("main"), 0})
	want(t, h.run(t, "", "ctl", "stop", "--via", s.via), result{"", "", 0})
}
