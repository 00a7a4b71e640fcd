package sandboxcheck

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// namespaceAttributes returns the attributes of a process in its own user namespace. It has the same
// user and group ID there as outside, and the given capabilities.
func namespaceAttributes(capabilities ...uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: capabilities,
		Pdeathsig:   syscall.SIGKILL,
	}
}

// WhyNoNamespaces returns why no sandbox can be created on this system, or "". A system may forbid
// user namespaces, or grant no capabilities in them.
func WhyNoNamespaces() string {
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.SysProcAttr = namespaceAttributes(unix.CAP_SYS_ADMIN)
	cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS | unix.CLONE_NEWNET // needs the capability
	if err := cmd.Run(); err != nil {
		return "cannot create user namespaces with capabilities: " + err.Error()
	}
	return ""
}

// RequireLayers skips a test if WhyNoLayers returns a reason.
func RequireLayers(t testing.TB, dir string) {
	t.Helper()
	if why := WhyNoLayers(dir); why != "" {
		t.Skip(why)
	}
}

// WhyNoLayers returns why no overlay can be mounted over dir, or "". A directory on an overlay,
// such as the files of a container, does not support it.
func WhyNoLayers(dir string) string {
	made, err := os.MkdirTemp(dir, "layer-")
	if err != nil {
		return "cannot make a test directory:  " + err.Error()
	}
	defer os.RemoveAll(made)
	cmd := exec.Command("/bin/sh", "-c", `cd "$0" && mkdir below above work all && mount -t overlay -o userxattr,lowerdir=below,upperdir=above,workdir=work layer all`, made)
	cmd.SysProcAttr = namespaceAttributes()
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNS
	cmd.SysProcAttr.UidMappings[0].ContainerID = 0 // mount(8) is for root
	cmd.SysProcAttr.GidMappings[0].ContainerID = 0
	if out, err := cmd.CombinedOutput(); err != nil {
		line, _, _ := strings.Cut(string(bytes.TrimSpace(out)), "\n")
		return "cannot mount an overlay over " + filepath.Clean(dir) + ": " + err.Error() + ": " + line
	}
	return ""
}

// RerunInNamespaces runs the calling test again, in a process with new namespaces, the given
// capabilities and a variable "NAME=value" in its environment. It reports whether this is that
// process.
//
// The first process only waits for it, and skips or fails the test as the second one did.
func RerunInNamespaces(t *testing.T, variable string, namespaces uintptr, capabilities ...uintptr) bool {
	t.Helper()
	name, _, _ := strings.Cut(variable, "=")
	if os.Getenv(name) != "" {
		return true
	}
	RequireNamespaces(t)
	program := testexec.OwnPath()
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable)
	cmd.SysProcAttr = namespaceAttributes(capabilities...)
	cmd.SysProcAttr.Cloneflags |= namespaces
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch ended := func(result string) bool { return strings.Contains(text, "--- "+result+": "+t.Name()+" ") }; {
	case err == nil && ended("SKIP"):
		t.Skip(lastLogLine(text))
	case err != nil || !ended("PASS"):
		t.Fatalf("%v\n%s", err, text)
	}
	t.Logf("%s", text)
	return false
}

// lastLogLine returns the last line that a test logged, without its file and line.
func lastLogLine(text string) (message string) {
	for line := range strings.Lines(text) {
		if location, rest, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.Contains(location, ".go:") {
			message = rest
		}
	}
	return message
}
