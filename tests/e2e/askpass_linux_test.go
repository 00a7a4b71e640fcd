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

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// An sshServer is a real sshd on the loopback interface, one process for each connection.
type sshServer struct {
	dir    string
	port   int
	via    string // with an empty file of known hosts
	remote home   // the home of the login
}

func newSSHServer(t *testing.T, passphrase string) *sshServer {
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
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd requires it for privilege separation
			t.Fatal(err)
		}
	}
	s := &sshServer{dir: t.TempDir(), remote: newDaemonHome(t)}
	for name, pass := range map[string]string{"host": "", "key": passphrase} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", pass, "-f", filepath.Join(s.dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	env := "PATH=" + filepath.Dir(replbin.Path()) + ":/usr/bin:/bin"
	for _, name := range []string{"TMPDIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TURNSTONE_SOCKET"} {
		env += " " + name + "=" + s.remote.envValue(name)
	}
	s.writeFile(t, "sshd_config", fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/key.pub\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nPrintMotd no\nSetEnv %[2]s\n", s.dir, env))
	s.listenSSH(t)
	s.writeFile(t, "config", fmt.Sprintf("Host far\nHostName 127.0.0.1\nPort %d\nUser %s\nIdentityFile %[3]s/key\nIdentitiesOnly yes\nIdentityAgent none\n"+
		"UserKnownHostsFile %[3]s/known\nGlobalKnownHostsFile /dev/null\n", s.port, me.Username, s.dir))
	s.via = "ssh -F " + filepath.Join(s.dir, "config") + " far"
	return s
}

func (s *sshServer) writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// trustHostKey adds the server's key to the known hosts.
func (s *sshServer) trustHostKey(t *testing.T) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(s.dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	s.writeFile(t, "known", fmt.Sprintf("[127.0.0.1]:%d %s", s.port, key))
}

// listenSSH starts an sshd for each connection, as inetd does, so that the test keeps the port.
func (s *sshServer) listenSSH(t *testing.T) {
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

// withBrowser gives a home a screen and a browser. The browser writes the address of each page it
// opens to a file.
func (h *home) withBrowser(t *testing.T) (opened string) {
	t.Helper()
	bin := t.TempDir()
	opened = filepath.Join(bin, "opened")
	script := "#!/bin/sh\naddress=$(sed -n 's/.*location.replace(\"\\([^\"]*\\)\").*/\\1/p' \"$1\") && echo $address >> " + opened + "\n"
	if err := testexec.WriteExecutable(filepath.Join(bin, "xdg-open"), []byte(script)); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "PATH="+bin+":"+h.envValue("PATH"), "DISPLAY=:7", "SSH_CONNECTION=", "SSH_AUTH_SOCK=")
	return opened
}

// openedPages returns the addresses that the browser has opened.
func openedPages(opened string) []string {
	text, _ := os.ReadFile(opened)
	return strings.Fields(string(text))
}

// waitPage waits until the browser has opened n pages, and fetches the last.
func waitPage(t *testing.T, opened string, n int) (address, text string) {
	t.Helper()
	wait.Until(t, "a page is open", func() bool { return len(openedPages(opened)) >= n })
	address = openedPages(opened)[n-1]
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

// submitForm submits the form of a page.
func submitForm(t *testing.T, address string, fields url.Values) {
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

func (s *sshServer) newAgent(t *testing.T, h home) *agent {
	t.Helper()
	return newAgent(t, h, "--via", s.via, "--sandbox", "full", "--name", "bot")
}

// closeAgent ends an agent and the daemon at the remote, if there is one.
func (s *sshServer) closeAgent(t *testing.T, a *agent) {
	t.Helper()
	_ = a.in.Close()
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	s.remote.runRepl(t, "", "daemon", "stop")
}

func TestAskpass(t *testing.T) {
	t.Parallel()

	t.Run("only the user confirms a host key", func(t *testing.T) {
		t.Parallel()
		s, h := newSSHServer(t, ""), newDaemonHome(t)
		opened := h.withBrowser(t)
		a := s.newAgent(t, h)
		a.sendInput("6 * 7")
		address, page := waitPage(t, opened, 1)
		key, err := exec.Command("ssh-keygen", "-lf", filepath.Join(s.dir, "host.pub")).Output()
		if err != nil {
			t.Fatal(err)
		}
		print := regexp.MustCompile(`SHA256:\S+`).FindString(string(key))
		if print == "" || !strings.Contains(html.UnescapeString(page), print) || !strings.Contains(page, "ssh, which connects to") || !strings.Contains(page, "Yes, this is its key") {
			t.Errorf("the page lacks %s: %s", print, page)
		}
		submitForm(t, address, url.Values{"answer": {"Yes, this is its key: connect"}})
		got := a.readAnswer()
		if !strings.Contains(got, "42") || strings.Contains(got, "SHA256") || strings.Contains(got, address) {
			t.Errorf("got %q", got)
		}
		if known, err := os.ReadFile(filepath.Join(s.dir, "known")); err != nil || len(known) == 0 {
			t.Errorf("the key was not saved: %v", err)
		}
		if n := len(openedPages(opened)); n != 1 {
			t.Errorf("the user was asked %d times", n)
		}
		s.closeAgent(t, a)
		if left, _ := filepath.Glob(filepath.Join(h.tmp, "repl-ask-*")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})

	t.Run("a declined host key is asked about once", func(t *testing.T) {
		t.Parallel()
		s, h := newSSHServer(t, ""), newDaemonHome(t)
		opened := h.withBrowser(t)
		a := s.newAgent(t, h)
		a.sendInput("6 * 7")
		address, _ := waitPage(t, opened, 1)
		submitForm(t, address, url.Values{"answer": {"No"}})
		for range 2 { // the second call asks nothing
			got := a.readAnswer()
			if !strings.Contains(got, "Host key verification failed") || !strings.Contains(got, "run "+s.via+" true once in a terminal") {
				t.Errorf("got %q", got)
			}
			if n := len(openedPages(opened)); n != 1 {
				t.Errorf("the user was asked %d times", n)
			}
			a.sendInput("6 * 7")
		}
		a.readAnswer()
		s.closeAgent(t, a)
	})

	t.Run("a passphrase goes to ssh and nowhere else", func(t *testing.T) {
		t.Parallel()
		const secret = `0pen "sesame"`
		s, h := newSSHServer(t, secret), newDaemonHome(t)
		s.trustHostKey(t)
		opened := h.withBrowser(t)
		a := s.newAgent(t, h)
		a.sendInput("6 * 7")
		address, page := waitPage(t, opened, 1)
		if !strings.Contains(page, `type="password"`) || !strings.Contains(page, "Enter passphrase for key") {
			t.Errorf("the page: %s", page)
		}
		submitForm(t, address, url.Values{"answer": {"wrong"}})
		address, _ = waitPage(t, opened, 2)
		submitForm(t, address, url.Values{"answer": {secret}})
		if got := a.readAnswer(); !strings.Contains(got, "42") || strings.Contains(got, "passphrase") {
			t.Errorf("got %q", got)
		}
		s.closeAgent(t, a)
	})

	t.Run("a declined passphrase ends ssh", func(t *testing.T) {
		t.Parallel()
		s, h := newSSHServer(t, "secret"), newDaemonHome(t)
		s.trustHostKey(t)
		opened := h.withBrowser(t)
		a := s.newAgent(t, h)
		a.sendInput("6 * 7")
		address, _ := waitPage(t, opened, 1)
		submitForm(t, address, url.Values{"decline": {"yes"}})
		if got := a.readAnswer(); !strings.Contains(got, "Permission denied") || !strings.Contains(got, "true once in a terminal") {
			t.Errorf("got %q", got)
		}
		if n := len(openedPages(opened)); n != 1 {
			t.Errorf("the user was asked %d times", n)
		}
		s.closeAgent(t, a)
	})

	t.Run("without a screen the error says what to run", func(t *testing.T) {
		t.Parallel()
		s, h := newSSHServer(t, ""), newDaemonHome(t)
		h.withBrowser(t)
		h.env = append(h.env, "DISPLAY=", "WAYLAND_DISPLAY=")
		a := s.newAgent(t, h)
		if got := a.callRepl("6 * 7"); !strings.Contains(got, "Host key verification failed") || !strings.Contains(got, "run "+s.via+" true once in a terminal") {
			t.Errorf("got %q", got)
		}
		s.closeAgent(t, a)
	})
}

func TestRemoteInstall_RealSSH(t *testing.T) {
	t.Parallel()
	s, h := newSSHServer(t, ""), newDaemonHome(t)
	s.trustHostKey(t)
	config, err := os.ReadFile(filepath.Join(s.dir, "sshd_config"))
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	s.writeFile(t, "sshd_config", strings.NewReplacer("PATH="+filepath.Dir(replbin.Path())+":", "PATH=", "XDG_CACHE_HOME="+s.remote.envValue("XDG_CACHE_HOME"), "XDG_CACHE_HOME="+cache).Replace(string(config)))
	if r := h.runRepl(t, "", "list", "--via", s.via); r.status != 3 || !strings.Contains(r.stderr, "repl remote install --via '"+s.via+"' installs it") {
		t.Errorf("before: %v", r)
	}
	if r := h.runRepl(t, "", "remote", "install", "--via", s.via); r.status != 0 || !strings.HasPrefix(r.stdout, cache+"/turnstone/bin/repl-") {
		t.Fatalf("got %v", r)
	}
	wantResult(t, h.runRepl(t, "", "exec", "main", "--via", s.via, "-e", "6 * 7"), result{"42\n", newSessionNotice("main"), 0})
	wantResult(t, h.runRepl(t, "", "daemon", "stop", "--via", s.via), result{"", "", 0})
}
