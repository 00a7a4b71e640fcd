package osservice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// ownerMarker is in every file that we write. Files without it are never changed.
const ownerMarker = "Written by repl service install; repl service uninstall removes it."

// commandTimeout bounds one command of the manager.
const commandTimeout = 30 * time.Second

// Options configure how the service runs the daemon.
type Options struct {
	Executable  string        // repl, absolute
	Socket      string        // absolute; "" means the default
	IdleTimeout time.Duration // as in repl serve; 0 means never
	Path        string        // PATH, for finding runtimes; "" means the manager's
	State       string        // XDG_STATE_HOME, where clients find the daemon's key; "" means the manager's
}

// environment returns the variables that the service sets, as names and values.
func (o *Options) environment() (set [][2]string) {
	for _, v := range [][2]string{{"PATH", o.Path}, {"XDG_STATE_HOME", o.State}} {
		if v[1] != "" {
			set = append(set, v)
		}
	}
	return set
}

func (o *Options) validate() error {
	for _, s := range []string{o.Executable, o.Socket, o.Path, o.State} {
		if strings.ContainsAny(s, "\n\r\x00") {
			return fmt.Errorf("%q cannot be written to a service file", s)
		}
	}
	if !filepath.IsAbs(o.Executable) || o.Socket != "" && !filepath.IsAbs(o.Socket) {
		return fmt.Errorf("the paths of a service must be absolute: %q, %q", o.Executable, o.Socket)
	}
	return nil
}

// UserDirs are the directories of one user.
type UserDirs struct {
	Home   string
	Config string // XDG_CONFIG_HOME; "" is .config in Home
	UID    int
}

// A UnitFile is a unit file for systemd or a property list for launchd.
type UnitFile struct {
	Path, Content string
}

// A Manager installs services with systemd or launchd.
type Manager struct {
	Name    string // "systemd", "launchd"
	command string // the manager's own

	files    func(p UserDirs, o *Options) []UnitFile
	start    func(p UserDirs, files []UnitFile) [][]string
	stop     func(p UserDirs, files []UnitFile) [][]string
	program  *regexp.Regexp      // its first group is the escaped program in a file
	unescape func(string) string // of that program
	reload   [][]string          // the commands to run after the files are removed
	Note     string              // a fact that users should know; may be ""
}

// Managers returns all known managers.
func Managers() []Manager { return []Manager{newSystemd(), newLaunchd()} }

// FindManager returns the manager of this machine.
func FindManager() (Manager, error) {
	var commands []string
	for _, m := range Managers() {
		if _, err := exec.LookPath(m.command); err == nil {
			return m, nil
		}
		commands = append(commands, m.command)
	}
	return Manager{}, fmt.Errorf("no supported service manager: neither %s is on PATH; start repl serve with your session instead", strings.Join(commands, " nor "))
}

// Files returns the files for the manager.
func (m Manager) Files(p UserDirs, o Options) ([]UnitFile, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return m.files(p, &o), nil
}

// A Step is a single action of an installation: exactly one of its fields is set.
type Step struct {
	Write  *UnitFile
	Remove string
	Run    []string
}

// Install returns the steps that register the service and start it. An existing file that is not
// ours is an error.
func (m Manager) Install(p UserDirs, o Options) ([]Step, error) {
	files, err := m.Files(p, o)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, f := range files {
		if _, err := isOurs(f.Path); err != nil {
			return nil, err
		}
		steps = append(steps, Step{Write: &f})
	}
	return append(steps, commandSteps(m.start(p, files))...), nil
}

// Uninstall returns the steps that stop and remove the service, or none if it is not installed.
func (m Manager) Uninstall(p UserDirs) ([]Step, error) {
	files := m.files(p, &Options{})
	var removals []Step
	for _, f := range files {
		installed, err := isOurs(f.Path)
		if err != nil {
			return nil, err
		}
		if installed {
			removals = append(removals, Step{Remove: f.Path})
		}
	}
	if len(removals) == 0 {
		return nil, nil
	}
	steps := append(commandSteps(m.stop(p, files)), removals...)
	return append(steps, commandSteps(m.reload)...), nil
}

// InstalledProgram returns the program that the installed service starts, or "" without a service of
// ours. An upgrade may have removed it.
func InstalledProgram(p UserDirs) string {
	for _, m := range Managers() {
		for _, f := range m.files(p, &Options{}) {
			if installed, err := isOurs(f.Path); err != nil || !installed {
				continue
			}
			content, err := os.ReadFile(f.Path)
			if err != nil {
				continue
			}
			if found := m.program.FindSubmatch(content); found != nil {
				return m.unescape(string(found[1]))
			}
		}
	}
	return ""
}

func commandSteps(commands [][]string) (steps []Step) {
	for _, c := range commands {
		steps = append(steps, Step{Run: c})
	}
	return steps
}

// isOurs reports whether a file exists and is ours; a foreign file is an error.
func isOurs(path string) (bool, error) {
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !bytes.Contains(content, []byte(ownerMarker)):
		return false, fmt.Errorf("%s was not written by repl service install and was not changed; move it away first", path)
	}
	return true, nil
}

// String returns the step as the user would write it.
func (s Step) String() string {
	switch {
	case s.Write != nil:
		return "write " + s.Write.Path
	case s.Remove != "":
		return "remove " + s.Remove
	}
	return "run " + strings.Join(s.Run, " ")
}

// Execute carries out the step. A command has half a minute; its output is part of its error.
func (s Step) Execute(ctx context.Context) error {
	switch {
	case s.Write != nil:
		if err := os.MkdirAll(filepath.Dir(s.Write.Path), 0o700); err != nil {
			return err
		}
		return os.WriteFile(s.Write.Path, []byte(s.Write.Content), 0o600)
	case s.Remove != "":
		return os.Remove(s.Remove)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Run[0], s.Run[1:]...)
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if err != nil {
		text := strings.TrimSpace(string(output))
		if text == "" {
			text = err.Error()
		}
		return fmt.Errorf("%s failed: %s", strings.Join(s.Run, " "), text)
	}
	return nil
}
