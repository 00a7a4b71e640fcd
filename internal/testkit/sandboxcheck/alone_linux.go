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
)

// namespaceAttributes are the attributes of a process in a user namespace of its own, in which it is who it is here
// and has these rights.
func namespaceAttributes(rights ...uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: rights,
		Pdeathsig:   syscall.SIGKILL,
	}
}

// WhyNoNamespaces says in a line why no sandbox can be made here, or "": a system may forbid user
// namespaces, or give no rights in them.
func WhyNoNamespaces() string {
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.SysProcAttr = namespaceAttributes(unix.CAP_SYS_ADMIN)
	cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS | unix.CLONE_NEWNET // needs the rights
	if err := cmd.Run(); err != nil {
		return "no user namespace with rights can be made here: " + err.Error()
	}
	return ""
}

// RequireLayers skips a test where WhyNoLayers says why.
func RequireLayers(t testing.TB, dir string) {
	t.Helper()
	if why := WhyNoLayers(dir); why != "" {
		t.Skip(why)
	}
}

// WhyNoLayers says in a line why no layer can be had above the directory, or "". An overlay, such as the
// files of a container, takes none.
func WhyNoLayers(dir string) string {
	made, err := os.MkdirTemp(dir, "layer-")
	if err != nil {
		return "no layer can be tried: " + err.Error()
	}
	defer os.RemoveAll(made)
	cmd := exec.Command("/bin/sh", "-c", `cd "$0" && mkdir below above work all && mount -t overlay -o userxattr,lowerdir=below,upperdir=above,workdir=work layer all`, made)
	cmd.SysProcAttr = namespaceAttributes()
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNS
	cmd.SysProcAttr.UidMappings[0].ContainerID = 0 // mount(8) is for root
	cmd.SysProcAttr.GidMappings[0].ContainerID = 0
	if out, err := cmd.CombinedOutput(); err != nil {
		line, _, _ := strings.Cut(string(bytes.TrimSpace(out)), "\n")
		return "no layer can be had above " + filepath.Clean(dir) + ": " + err.Error() + ": " + line
	}
	return ""
}

// RerunInNamespaces runs the test that calls it once more, in a process that has namespaces of its own, these
// rights in them and a variable "NAME=value" in its environment. It reports whether this is that process.
// In the one that only waits for it, the test is skipped or fails as it did there.
func RerunInNamespaces(t *testing.T, variable string, namespaces uintptr, rights ...uintptr) bool {
	t.Helper()
	name, _, _ := strings.Cut(variable, "=")
	if os.Getenv(name) != "" {
		return true
	}
	RequireNamespaces(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable)
	cmd.SysProcAttr = namespaceAttributes(rights...)
	cmd.SysProcAttr.Cloneflags |= namespaces
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch ended := func(how string) bool { return strings.Contains(text, "--- "+how+": "+t.Name()+" ") }; {
	case err == nil && ended("SKIP"):
		t.Skip(lastLogLine(text))
	case err != nil || !ended("PASS"):
		t.Fatalf("%v\n%s", err, text)
	}
	t.Logf("%s", text)
	return false
}

// lastLogLine is the last line that a test logged, without the place.
func lastLogLine(text string) (said string) {
	for line := range strings.Lines(text) {
		if place, words, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.Contains(place, ".go:") {
			said = words
		}
	}
	return said
}
