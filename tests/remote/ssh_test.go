//go:build linux

package remote

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A testAccount is an account with its own shell. All accounts are root, so sshd selects the shell
// by a forced command.
type testAccount struct{ name, shell string }

// testAccounts are the hosts of the local ssh config. A command's words pass through the account's
// shell.
var testAccounts = []testAccount{
	{"plain", `exec bash -c "$SSH_ORIGINAL_COMMAND"`},
	{"noisy", `BASH_ENV=%s/noisy.bashrc exec bash -c "$SSH_ORIGINAL_COMMAND"`},
	{"greedy", `BASH_ENV=%s/greedy.bashrc exec bash -c "$SSH_ORIGINAL_COMMAND"`},
	{"fish", `exec fish -c "$SSH_ORIGINAL_COMMAND"`},
	{"csh", `exec tcsh -c "$SSH_ORIGINAL_COMMAND"`},
	{"dash", `exec dash -c "$SSH_ORIGINAL_COMMAND"`},
	{"broken", `echo 'the disk of this account is gone'; exit 7`},
}

// noisyProfile is a startup file that prints before the command, without a newline, and after it.
const noisyProfile = `echo 'Welcome to far. Have a lot of fun.'
stty erase x
(sleep 0.5; echo 'a job in the background says hello') &
printf 'no newline at the end'
`

// greedyProfile is a startup file that reads input, and would consume anything sent too early.
const greedyProfile = `read -r -t 0.3 answer && echo "answered: $answer"
`

// beginSSH starts a real sshd for each connection, as inetd does: the test has the listener, so no
// port is used twice.
func beginSSH(e *testEngine) error {
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd needs it for privilege separation
		return err
	}
	for _, key := range []string{"host", "key"} {
		if _, err := e.runOutput("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(e.dir, key)); err != nil {
			return err
		}
	}
	host, err := os.ReadFile(filepath.Join(e.dir, "host.pub"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"known": "far " + string(host), "noisy.bashrc": noisyProfile, "greedy.bashrc": greedyProfile} {
		if _, err := e.writeFile(name, 0o600, text); err != nil {
			return err
		}
	}
	config := fmt.Sprintf("Host *\nHostName 127.0.0.1\nHostKeyAlias far\nUser root\nIdentityFile %[1]s/key\nIdentitiesOnly yes\n"+
		"UserKnownHostsFile %[1]s/known\nGlobalKnownHostsFile /dev/null\n", e.dir)
	for _, a := range testAccounts {
		port, err := e.listenSSH(a)
		if err != nil {
			return err
		}
		config += fmt.Sprintf("Host %s\nPort %d\n", a.name, port)
	}
	path, err := e.writeFile("config", 0o600, config)
	e.prefix = []string{"ssh", "-F", path, "plain"}
	if err != nil {
		return err
	}
	return e.startDetached("setsid " + binary + " serve --socket " + e.socketPath() + " >" + e.dir + "/daemon.log 2>&1 </dev/null &")
}

// withAccount returns the engine with another account.
func (e *testEngine) withAccount(account string) *testEngine {
	return &testEngine{name: e.name, prefixProgram: e.prefixProgram, dir: e.dir, home: e.home, prefix: []string{"ssh", "-F", filepath.Join(e.dir, "config"), account}}
}

// listenSSH gives each connection of an account its own sshd.
func (e *testEngine) listenSSH(a testAccount) (port int, err error) {
	shell := strings.ReplaceAll(a.shell, "%s", e.dir)
	if shell, err = e.writeFile(a.name+".shell", 0o700, "#!/bin/sh\n"+shell+"\n"); err != nil {
		return 0, err
	}
	config, err := e.writeFile(a.name+".conf", 0o600, fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/key.pub\nStrictModes no\n"+
		"UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nPrintMotd no\nForceCommand %[2]s\nSetEnv %[3]s\n",
		e.dir, shell, strings.Join(e.environment(), " ")))
	if err != nil {
		return 0, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	e.cleanups = append(e.cleanups, func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go e.serveLogin(conn.(*net.TCPConn), config)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// serveLogin passes a connection to an sshd.
func (e *testEngine) serveLogin(conn *net.TCPConn, config string) {
	file, err := conn.File()
	_ = conn.Close()
	if err != nil {
		return
	}
	defer file.Close()
	sshd := exec.Command("/usr/sbin/sshd", "-i", "-f", config, "-E", filepath.Join(e.dir, "sshd.log"))
	sshd.Stdin, sshd.Stdout = file, file
	sshd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = sshd.Run()
}
