package escapes

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
)

// secret is in every file that a session must not see.
const secret = "a-secret-that-nobody-may-see"

// A machine is everything outside of a session: a home directory with a project, servers, and a
// process that must not be reached.
type machine struct {
	base, home, work, outside, named, sessions string

	victim    *exec.Cmd
	reachedBy atomic.Pointer[string] // name of the probe that reached a server
	facts     map[string]any         // facts that the probes need
	env       []string
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	for _, program := range []string{interpreter, "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	if os.Getenv(noNamespacesEnv) == "" {
		sandboxcheck.RequireNamespaces(t)
	}
	base, err := os.MkdirTemp(sandboxcheck.RerunDir(), "machine-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	m := &machine{base: base, home: filepath.Join(base, "home"), outside: filepath.Join(base, "outside"), named: filepath.Join(base, "named"), sessions: filepath.Join(base, "sessions")}
	m.work = filepath.Join(m.home, "project")
	m.writeFiles(t)
	m.makeRepositories(t)
	m.startServers(t)
	m.startVictim(t)
	return m
}

func (m *machine) writeFiles(t testing.TB) {
	for name, text := range map[string]string{
		"home/.ssh/id_ed25519": secret, "home/.aws/credentials": secret, "home/.netrc": secret, "home/.config/gh/hosts.yml": secret,
		"home/mine/private.txt": secret, "home/note.txt": "a note", "home/.bashrc": "", "home/.local/bin/tool": "", "home/.cache/ruff/existing": "cached ",
		"home/.cache/turnstone/python/worker-cpython-311-kept": "kept", "home/.cache/turnstone/r/kept.so": "kept", "home/.config/turnstone/sandbox.toml": "",
		"home/.config/git/config": "", "home/.config/systemd/user/kept.service": "", "home/.cargo/bin/cargo": "", "home/go/bin/gopls": "", "home/.R/Makevars": "",
		"home/.profile": "", "home/.Rprofile": "", "home/.gitconfig": "", "home/.ssh/authorized_keys": "", "home/.run/xauth_cookie": secret,
		"home/project/.pre-commit-config.yaml": "", "home/project/tools/clean.sh": "#!/bin/sh\ncat\n",
		"outside/file": "outside", "named/file": "named", "sessions/other-session/transcript": secret,
		"home/project/.vscode/settings.json": "{}", "home/project/.mcp.json": "{}", "home/project/.husky/pre-commit": "", "home/project/.husky/_/pre-commit": "", "home/project/README": "read me",
		"home/project/probes.py": probes,
	} {
		writeFile(t, filepath.Join(m.base, name), text)
	}
	for path, mode := range map[string]os.FileMode{m.sessions: 0o700, filepath.Join(m.home, ".config/turnstone/sandbox.toml"): 0o600} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// makeRepositories makes a repository with a hook, a nested one, and git directories as of
// submodules.
func (m *machine) makeRepositories(t testing.TB) {
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+m.home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	nested := filepath.Join(m.work, "vendor/lib")
	writeFile(t, filepath.Join(nested, "file"), "nested")
	for _, dir := range []string{m.work, nested} {
		git(dir, "init", "-q")
		writeFile(t, filepath.Join(dir, ".git/info/attributes"), "")
		writeFile(t, filepath.Join(dir, ".git/hooks/post-commit"), "#!/bin/sh\n")
	}
	git(m.work, "config", "core.hooksPath", ".husky/_")
	git(m.work, "config", "filter.clean.clean", "tools/clean.sh --quiet")
	writeFile(t, filepath.Join(m.work, ".gitignore"), "probes.py\n*.sock\nvendor\n")
	git(m.work, "add", "README", ".gitignore")
	git(m.work, "commit", "-q", "-m", "first")
	for _, sub := range []string{"sub", "deep/er"} {
		git(m.work, "init", "-q", "--bare", ".git/modules/"+sub)
		writeFile(t, filepath.Join(m.work, ".git/modules", sub, "hooks/post-checkout"), "#!/bin/sh\n")
	}
	writeFile(t, filepath.Join(m.work, "sub/.git"), "gitdir: ../.git/modules/sub\n")
}

// startServers starts servers that a session must not reach, and records each client.
func (m *machine) startServers(t testing.TB) {
	abstract := filepath.Base(m.base) + strconv.Itoa(os.Getpid())
	note := func(where string) { m.reachedBy.CompareAndSwap(nil, &where) }
	listen := func(network, address string) net.Addr {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				note(network + " " + address)
				_, _ = c.Write([]byte(secret))
				_ = c.Close()
			}
		}()
		return l.Addr()
	}
	receive := func(network, address string) net.Addr {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			b := make([]byte, 100)
			for {
				if _, _, err := c.ReadFrom(b); err != nil {
					return
				}
				note(network + " " + address)
			}
		}()
		return c.LocalAddr()
	}
	paths := []string{m.home + "/host.sock", m.work + "/host.sock", m.outside + "/host.sock", "/tmp/" + abstract + ".sock", "/var/tmp/" + abstract + ".sock"}
	for _, name := range []string{"bus", "systemd/private", "gnupg/S.gpg-agent", "openssh_agent", "wayland-0", "pulse/native", "podman/podman.sock", "turnstone/daemon.sock"} {
		paths = append(paths, filepath.Join(m.runtimeDir(), name))
	}
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		listen("unix", path)
	}
	listen("unixpacket", m.work+"/seqpacket.sock")
	receive("unixgram", m.work+"/datagram.sock")
	listen("unix", "@"+abstract)
	tcp := listen("tcp", "127.0.0.1:0").(*net.TCPAddr).Port
	udp := receive("udp", "127.0.0.1:0").(*net.UDPAddr).Port

	posix := abstract
	writeFile(t, "/dev/shm/"+posix, secret)
	t.Cleanup(func() { _ = os.Remove("/dev/shm/" + posix) })
	key := int(crc32.ChecksumIEEE([]byte(abstract)) >> 1)
	m.makeQueues(t, key, posix)
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	shared, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	copy(shared, secret)
	_ = unix.SysvShmDetach(shared)
	m.facts = map[string]any{"tmp_socket": paths[3], "var_tmp_socket": paths[4], "runtime": m.runtimeDir(), "abstract": abstract, "tcp": tcp, "udp": udp, "posix": posix, "shm": key}
}

// runtimeDir is the directory of the user's own services.
func (m *machine) runtimeDir() string { return filepath.Join(m.home, ".run") }

// makeQueues makes a message queue and a semaphore with this key, and a POSIX queue and a key of
// the user with this name.
func (m *machine) makeQueues(t testing.TB, key int, name string) {
	made := func(what string, remove func(id uintptr), id uintptr, e unix.Errno) {
		if e != 0 {
			t.Fatalf("%s: %v", what, e)
		}
		t.Cleanup(func() { remove(id) })
	}
	flags := uintptr(unix.IPC_CREAT | unix.IPC_EXCL | 0o600)
	id, _, e := unix.Syscall(unix.SYS_MSGGET, uintptr(key), flags, 0)
	made("a message queue", func(id uintptr) { _, _, _ = unix.Syscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0) }, id, e)
	id, _, e = unix.Syscall(unix.SYS_SEMGET, uintptr(key), 1, flags)
	made("a semaphore", func(id uintptr) { _, _, _ = unix.Syscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID) }, id, e)
	number, err := unix.AddKey("user", name, []byte(secret), unix.KEY_SPEC_USER_KEYRING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, number, unix.KEY_SPEC_USER_KEYRING, 0, 0) })
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	small := [8]int64{1: 1, 2: 64} // flags, messages, bytes of each: a user may have only ten of the default size
	id, _, e = unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(path)), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600, uintptr(unsafe.Pointer(&small)), 0, 0)
	made("a queue of POSIX", func(id uintptr) {
		_ = unix.Close(int(id))
		_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(path)), 0, 0)
	}, id, e)
}

// startVictim starts a process with a secret in its environment.
func (m *machine) startVictim(t testing.TB) {
	marker := "turnstone-escapes-victim-" + strconv.Itoa(os.Getpid())
	m.victim = exec.Command("sh", "-c", "while read x; do :; done", marker)
	m.victim.Env = []string{"SECRET=" + secret, "PATH=/usr/bin:/bin"}
	in, err := m.victim.StdinPipe()
	if err == nil {
		err = m.victim.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = m.victim.Wait() })
	for k, v := range map[string]any{
		"home": m.home, "workspace": m.work, "outside": m.outside, "named": m.named, "sessions": m.sessions,
		"victim": m.victim.Process.Pid, "marker": marker, "uid": os.Getuid(),
	} {
		m.facts[k] = v
	}
	facts, err := json.Marshal(m.facts)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOME=") && !strings.HasPrefix(kv, "PATH=") && !strings.HasPrefix(kv, "TMPDIR=") && !strings.HasPrefix(kv, "XDG_") {
			m.env = append(m.env, kv)
		}
	}
	m.env = append(m.env, "HOME="+m.home, "PATH=/usr/local/bin:/usr/bin:/bin", "ESCAPES_WORLD="+string(facts),
		"ESCAPES_API_KEY="+secret, "SSH_AUTH_SOCK="+m.home+"/host.sock", "XDG_RUNTIME_DIR="+m.runtimeDir(), "PYTHONDONTWRITEBYTECODE=1")
}

// readState returns everything about the machine that a session must not change, by path.
func (m *machine) readState(t testing.TB) map[string]string {
	t.Helper()
	state := map[string]string{}
	note := func(path string, d fs.DirEntry) {
		info, err := d.Info()
		if err != nil {
			return
		}
		var text []byte
		if info.Mode().IsRegular() { // reading a pipe would not end
			text, _ = os.ReadFile(path)
		}
		names := make([]byte, 100)
		n, _ := unix.Llistxattr(path, names)
		modified := info.ModTime().UnixNano()
		if d.IsDir() {
			modified = 0 // the names in a directory are recorded separately
		}
		state[path] = fmt.Sprint(info.Mode(), modified, string(text), names[:max(n, 0)])
	}
	for _, top := range []string{m.home, m.outside, m.runtimeDir(), filepath.Join(m.sessions, "other-session")} {
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !m.isWritable(path) {
				note(path, d)
			}
			return nil
		})
	}
	if fields := strings.Fields(readText("/proc/" + strconv.Itoa(m.victim.Process.Pid) + "/stat")); len(fields) > 2 {
		state["victim"] = strings.NewReplacer("R", "S").Replace(fields[2])
	}
	if by := m.reachedBy.Swap(nil); by != nil {
		state["reached"] = *by
	}
	for _, path := range []string{"/usr/escaped", "/etc/escaped", "/var/escaped", "/opt/escaped", "/run/escaped"} {
		if _, err := os.Lstat(path); err == nil {
			state[path] = "is there"
		}
	}
	return state
}

func readText(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// isWritable reports whether a session may write a path: the project, except for files that other
// programs run or trust.
func (m *machine) isWritable(path string) bool {
	rest, ok := strings.CutPrefix(path, m.work+"/")
	if !ok {
		return false
	}
	for _, keep := range []string{".git", ".git/config", ".git/info", ".vscode", ".mcp.json", ".husky", ".pre-commit-config.yaml", "tools", "tools/clean.sh", "vendor", "vendor/lib", "vendor/lib/.git", "vendor/lib/.git/config", "sub/.git", "probes.py"} {
		if rest == keep {
			return false
		}
	}
	for _, keep := range []string{".git/hooks", ".git/info/attributes", ".git/modules/sub/hooks", ".git/modules/sub/config", ".git/modules/deep/er/hooks", ".git/modules/deep/er/config", ".vscode", ".husky", "vendor/lib/.git/hooks"} {
		if rest == keep || strings.HasPrefix(rest, keep+"/") {
			return false
		}
	}
	return true
}
