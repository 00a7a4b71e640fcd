//go:build unix

package userdirs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/owners"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

type environment map[string]string

func (e environment) get(name string) string { return e[name] }

// printEnv makes TestProgramState_Volume print what it finds.
const printEnv = "USERDIRS_TEST_PRINT"

// A home directory on a volume of a container belongs to root, and its user may write it. A directory
// that all users share does not count as a home.
func TestProgramState_Volume(t *testing.T) {
	if os.Getenv(printEnv) != "" {
		fmt.Println("state:", userdirs.ProgramState(os.Getenv))
		return
	}
	nobody, err := user.Lookup("nobody")
	if err != nil || os.Geteuid() != 0 {
		return // only root can run a process as another user
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	top, err := os.MkdirTemp("", "volume")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	program := filepath.Join(top, "program")
	data, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = errors.Join(os.Chmod(top, 0o755), os.WriteFile(program, data, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		mode   os.FileMode
		isUsed bool
	}{
		"a volume":           {0o777, true},
		"a home of root":     {0o700, false},
		"a shared directory": {0o777 | os.ModeSticky, false},
	} {
		home := filepath.Join(top, name)
		if err := errors.Join(os.Mkdir(home, 0o700), os.Chmod(home, c.mode)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, "-test.run", "^TestProgramState_Volume$")
		cmd.Env, cmd.Dir = []string{printEnv + "=1", "HOME=" + home}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		out, err := cmd.Output()
		if errors.Is(err, fs.ErrPermission) {
			t.Skip("this process may not run a program as another user; run as root with that capability")
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := strings.Contains(string(out), "state: "+filepath.Join(home, ".local", "state", "turnstone")); got != c.isUsed {
			t.Errorf("%s: got %q, want a state there: %v", name, out, c.isUsed)
		}
	}
}

func TestProgramState(t *testing.T) {
	usual := userdirs.ProgramState(environment{}.get)
	for name, v := range map[string]environment{
		"a relative path":  {"XDG_STATE_HOME": "state"},
		"no home":          {"HOME": "/nonexistent"},
		"a relative home":  {"HOME": "home"},
		"no absolute path": {"XDG_STATE_HOME": "./x", "HOME": ""},
	} {
		if got := userdirs.ProgramState(v.get); got != usual || got != "" && !filepath.IsAbs(got) {
			t.Errorf("%s: %q, not %q", name, got, usual)
		}
	}
	home, state := t.TempDir(), t.TempDir()
	if got, want := userdirs.ProgramState(environment{"HOME": home}.get), filepath.Join(home, ".local", "state", "turnstone"); got != want {
		t.Errorf("an own home: %q, not %q", got, want)
	}
	if got, want := userdirs.ProgramState(environment{"HOME": home, "XDG_STATE_HOME": state}.get), filepath.Join(state, "turnstone"); got != want {
		t.Errorf("a variable: %q, not %q", got, want)
	}
	t.Run("another's home", func(t *testing.T) {
		owners.GiveAway(t, home)
		if got := userdirs.ProgramState(environment{"HOME": home}.get); got != usual {
			t.Errorf("%q, not %q", got, usual)
		}
	})
}
