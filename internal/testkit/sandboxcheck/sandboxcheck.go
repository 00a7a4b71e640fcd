// Package sandboxcheck lets tests of other packages run a second time with every worker in a
// sandbox. Set TURNSTONE_TEST_SANDBOX to a level, such as "workspace".
//
// If root starts them, the tests then run as an unprivileged user, so that their sandboxes are like
// those of real users.
//
// It also explains why a test of a sandbox cannot run on this system, and runs a test again in
// separate namespaces. It starts processes, but no goroutines.
package sandboxcheck

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"io/fs"

	"github.com/turnstone-repl/turnstone/sandbox"
)

const (
	levelEnv = "TURNSTONE_TEST_SANDBOX"
	// baseEnv names the directory of a rerun, which rerunUnprivileged has created.
	baseEnv = "TURNSTONE_TEST_BASE"
)

// Sandbox returns the sandbox that this run of the tests uses, or nil. Its sessions may write the
// directory for temporary files, because tests leave files for them there. Replies do not begin
// with the sandbox notice, because tests compare them.
func Sandbox() *sandbox.Policy {
	level := os.Getenv(levelEnv)
	if level == "" {
		return nil
	}
	return &sandbox.Policy{Level: sandbox.Level(level), Network: sandbox.NetworkNone, Writable: []string{os.TempDir()}, AcceptPaths: []string{string(filepath.Separator)}, NoNotice: true}
}

// RunTests runs the tests of a package, as an unprivileged user if this run uses a sandbox.
func RunTests(m *testing.M) int {
	if os.Getenv(levelEnv) == "" {
		return m.Run()
	}
	return RunUnprivileged(m)
}

// RunUnprivileged runs the tests of a package as an unprivileged user.
func RunUnprivileged(m *testing.M) int {
	if RerunDir() != "" {
		return m.Run()
	}
	code, err := rerunUnprivileged()
	if errors.Is(err, fs.ErrPermission) { // a root user without capabilities cannot change its user ID
		return m.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// RerunDir returns the directory of a rerun, or "" if this process is not a rerun.
func RerunDir() string { return os.Getenv(baseEnv) }

// TempDir creates a directory outside the directory for temporary files, because a sandbox has its
// own /tmp.
func TempDir(t testing.TB) string {
	t.Helper()
	parent, err := tempDirParent()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(parent, "turnstone-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// tempDirParent returns the directory in which TempDir creates directories.
func tempDirParent() (string, error) {
	if RerunDir() != "" {
		return RerunDir(), nil
	}
	if os.Getuid() == 0 {
		return "/var", nil
	}
	return os.UserHomeDir()
}

// RequireNamespaces skips a test if WhyNoNamespaces returns a reason.
func RequireNamespaces(t testing.TB) {
	t.Helper()
	if why := WhyNoNamespaces(); why != "" {
		t.Skip(why)
	}
}

// rerunUnprivileged runs this test program again as an unprivileged user, in a copy of its
// package's directory. The home and temporary directories are next to the copy, because a session
// does not see those in /tmp. All of it is removed afterwards.
func rerunUnprivileged() (code int, err error) {
	parent, err := tempDirParent()
	if err != nil {
		return 1, err
	}
	base, err := os.MkdirTemp(parent, "turnstone-sandboxcheck-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	work, program := filepath.Join(base, "package"), filepath.Join(base, "tests")
	if err := os.CopyFS(work, os.DirFS(".")); err != nil {
		return 1, err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	for _, dir := range []string{"home", "tmp"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(base, dir), 0o755))
	}
	if err != nil {
		return 1, err
	}
	// This flag makes Go log the files that a test reads, for its test cache. The cache cannot know
	// which kernel runs.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return strings.HasPrefix(a, "-test.testlogfile") })
	cmd := exec.Command(program, args...)
	cmd.Dir = work
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), baseEnv+"="+base, "HOME="+filepath.Join(base, "home"), "TMPDIR="+filepath.Join(base, "tmp"))
	if err := setUnprivileged(cmd, base); err != nil {
		return 1, err
	}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return cmd.ProcessState.ExitCode(), err
}
