//go:build linux

package places

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// An account is a way to log in at sshd: a shell of its own, as root has one shell only.
type account struct{ name, shell string }

// accounts are the hosts of the near side's ssh config. The words of a command travel through a shell.
var accounts = []account{
	{"plain", `exec bash -c "$SSH_ORIGINAL_COMMAND"`},
	{"noisy", `BASH_ENV=%s/noisy.bashrc exec bash -c "$SSH_ORIGINAL_COMMAND"`},
	{"greedy", `BASH_ENV=%s/greedy.bashrc exec bash -c "$SSH_ORIGINAL_COMMAND"`},
	{"fish", `exec fish -c "$SSH_ORIGINAL_COMMAND"`},
	{"csh", `exec tcsh -c "$SSH_ORIGINAL_COMMAND"`},
	{"dash", `exec dash -c "$SSH_ORIGINAL_COMMAND"`},
	{"broken", `echo 'the disk of this account is gone'; exit 7`},
}

// noise is a start file that writes before us, without a newline, and after us.
const noise = `echo 'Welcome to far. Have a lot of fun.'
stty erase x
(sleep 0.5; echo 'a job in the background says hello') &
printf 'no newline at the end'
`

// greed is a start file that asks, and would eat what is sent too early.
const greed = `read -r -t 0.3 answer && echo "answered: $answer"
`

// beginSSH starts a real sshd for each connection, as inetd does: the listener is ours, so no
// port is taken twice.
func beginSSH(e *engine) error {
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd wants it, for the separation of privileges
		return err
	}
	for _, key := range []string{"host", "key"} {
		if _, err := e.says("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(e.dir, key)); err != nil {
			return err
		}
	}
	host, err := os.ReadFile(filepath.Join(e.dir, "host.pub"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"known": "far " + string(host), "noisy.bashrc": noise, "greedy.bashrc": greed} {
		if _, err := e.file(name, 0o600, text); err != nil {
			return err
		}
	}
	config := fmt.Sprintf("Host *\nHostName 127.0.0.1\nHostKeyAlias far\nUser root\nIdentityFile %[1]s/key\nIdentitiesOnly yes\n"+
		"UserKnownHostsFile %[1]s/known\nGlobalKnownHostsFile /dev/null\n", e.dir)
	for _, a := range accounts {
		port, err := e.listen(a)
		if err != nil {
			return err
		}
		config += fmt.Sprintf("Host %s\nPort %d\n", a.name, port)
	}
	path, err := e.file("config", 0o600, config)
	e.words = []string{"ssh", "-F", path, "plain"}
	if err != nil {
		return err
	}
	return e.detached("setsid " + binary + " serve --socket " + e.socket() + " >" + e.dir + "/daemon.log 2>&1 </dev/null &")
}

// as is the engine with another account.
func (e *engine) as(account string) *engine {
	return &engine{name: e.name, program: e.program, dir: e.dir, home: e.home, words: []string{"ssh", "-F", filepath.Join(e.dir, "config"), account}}
}

// listen gives each connection of an account an sshd of its own.
func (e *engine) listen(a account) (port int, err error) {
	shell := strings.ReplaceAll(a.shell, "%s", e.dir)
	if shell, err = e.file(a.name+".shell", 0o700, "#!/bin/sh\n"+shell+"\n"); err != nil {
		return 0, err
	}
	config, err := e.file(a.name+".conf", 0o600, fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/key.pub\nStrictModes no\n"+
		"UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nPrintMotd no\nForceCommand %[2]s\nSetEnv %[3]s\n",
		e.dir, shell, strings.Join(e.env(), " ")))
	if err != nil {
		return 0, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	e.ends = append(e.ends, func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go e.login(conn.(*net.TCPConn), config)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// login hands a connection to an sshd.
func (e *engine) login(conn *net.TCPConn, config string) {
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
