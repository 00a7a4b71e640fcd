package userconfig

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

// LocalRemote is the name of this machine among remotes. No entry of the file may have it.
const LocalRemote = "here"

// A Remote describes a daemon elsewhere and the command that reaches it.
type Remote struct {
	Command        string `toml:"via"`             // the transport command, as a shell would split it; it may contain {job}
	Program        string `toml:"repl"`            // the program there; "" is repl on PATH, or the installed one
	Socket         string `toml:"socket"`          // the daemon's socket there; "" is the user's default
	Dir            string `toml:"dir"`             // where sessions start there; "" is the daemon's own directory
	ConnectTimeout string `toml:"connect-timeout"` // for the command to connect; "" is 20 s
	Login          bool   `toml:"login-env"`       // a started daemon gets the environment of a login

	// Install allows every client of the remote, including agents, to install the program there if
	// it is missing.
	Install bool `toml:"install"`

	// Start is a local command that prints the name of the job for {job} in Command. It may contain
	// {repl} and {socket}.
	Start string `toml:"start"`

	// Diagnose is a local command that explains why the remote cannot be reached. It may contain
	// {job}.
	Diagnose string `toml:"diagnose"`

	// Prefix, StartWords and DiagnoseWords are the words of Command, Start and Diagnose, and Timeout
	// is the parsed ConnectTimeout.
	Prefix, StartWords, DiagnoseWords []string      `toml:"-"`
	Timeout                           time.Duration `toml:"-"`
}

// Placeholders for the job, the program and the socket in commands of a remote.
const (
	JobPlaceholder     = "{job}"
	programPlaceholder = "{repl}"
	socketPlaceholder  = "{socket}"
)

// RemotesFile returns the path of the user's file of remotes, remotes.toml next to sandbox.toml, or
// "" without a home directory.
func RemotesFile(getenv func(string) string) string {
	return configPath(getenv, "remotes.toml")
}

// remoteName matches words that every shell leaves unchanged, and that can precede the name of a session.
var remoteName = text.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// IsRemoteName reports whether a remote may have that name.
func IsRemoteName(name string) bool { return remoteName().MatchString(name) }

// ReadRemotes reads the file. A missing file is empty. An error names the line. The file contains
// commands, so only the user may be able to write it.
func ReadRemotes(path string) (map[string]Remote, error) {
	text, err := readPrivateFile(path)
	if text == nil || err != nil {
		return nil, err
	}
	var file struct {
		Remotes map[string]Remote `toml:"remotes"`
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s, %s%s", path, errorPosition(err), suggestSetting(err))
	}
	for name, p := range file.Remotes {
		if err := p.parse(name); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, findLine(text, "[remotes."+name), err)
		}
		file.Remotes[name] = p
	}
	return file.Remotes, nil
}

// suggestSetting suggests the known setting closest to an unknown one, or lists all settings if
// none is close. It returns "" if err is not about an unknown setting.
func suggestSetting(err error) string {
	missing, ok := errors.AsType[*toml.StrictMissingError](err)
	if !ok {
		return ""
	}
	key := missing.Errors[0].Key()
	best, least := "", 3
	for _, known := range remoteSettings() {
		if d := text.Distance(key[len(key)-1], known); d < least {
			best, least = known, d
		}
	}
	if best == "" {
		return "; a remote has " + strings.Join(remoteSettings(), ", ")
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// remoteSettings returns the names of a remote's settings.
func remoteSettings() []string {
	var all []string
	for f := range reflect.TypeFor[Remote]().Fields() {
		if name := f.Tag.Get("toml"); name != "-" {
			all = append(all, name)
		}
	}
	return all
}

func (r *Remote) parse(name string) (err error) {
	switch {
	case !IsRemoteName(name):
		return fmt.Errorf("invalid remote name %q: use up to 32 letters, digits, dots, underscores and hyphens", name)
	case name == LocalRemote:
		return fmt.Errorf("%q is reserved for this machine", name)
	case r.Command == "":
		return fmt.Errorf("%s lacks via, the command that connects to it", name)
	case r.Program != "" && !transportcmd.IsPlainWord(r.Program):
		return fmt.Errorf("repl of %s: %q: use letters, digits and _ . / = - only", name, r.Program)
	case r.Socket != "" && !transportcmd.IsPlainWord(r.Socket):
		return fmt.Errorf("socket of %s: %q: use letters, digits and _ . / = - only", name, r.Socket)
	case r.Dir != "" && !strings.HasPrefix(r.Dir, "/") && !filepath.IsAbs(r.Dir):
		return fmt.Errorf("dir of %s: %q: use an absolute path on the remote", name, r.Dir)
	case r.ConnectTimeout != "":
		if r.Timeout, err = time.ParseDuration(r.ConnectTimeout); err != nil || r.Timeout < time.Second || r.Timeout > 24*time.Hour {
			return fmt.Errorf("connect-timeout of %s: %q: use a time from 1s to 24h, such as 10m", name, r.ConnectTimeout)
		}
	}
	for _, c := range []struct {
		setting, command string
		words            *[]string
		marks            []string
	}{
		{"via", r.Command, &r.Prefix, []string{JobPlaceholder}},
		{"start", r.Start, &r.StartWords, []string{programPlaceholder, socketPlaceholder}},
		{"diagnose", r.Diagnose, &r.DiagnoseWords, []string{JobPlaceholder}},
	} {
		if c.command == "" {
			continue
		}
		if *c.words, err = transportcmd.SplitWords(c.command); err != nil {
			return fmt.Errorf("%s of %s: %w", c.setting, name, err)
		}
		if mark := misplacedPlaceholder(*c.words, c.marks); mark != "" {
			return fmt.Errorf("%s of %s: %s has no meaning here; use %s", c.setting, name, mark, strings.Join(c.marks, " and "))
		}
	}
	return r.parseJob(name)
}

// parseJob rejects incomplete commands for a job.
func (r *Remote) parseJob(name string) error {
	switch {
	case r.NeedsJob() && r.Start == "":
		return fmt.Errorf("via of %s has %s; add start, the command that prints it", name, JobPlaceholder)
	case !r.NeedsJob() && r.Start != "":
		return fmt.Errorf("start of %s prints the name of a job; put %s where it belongs in via", name, JobPlaceholder)
	case strings.Contains(r.Start, socketPlaceholder) && r.Socket == "":
		return fmt.Errorf("start of %s has {socket}; add socket, a path on the remote", name)
	}
	return nil
}

// NeedsJob reports whether the remote is reached through a job.
func (r *Remote) NeedsJob() bool { return strings.Contains(r.Command, JobPlaceholder) }

// misplacedPlaceholder returns a placeholder in the words of a command that is not among the known ones, or "".
func misplacedPlaceholder(words, known []string) string {
	for _, mark := range []string{JobPlaceholder, programPlaceholder, socketPlaceholder} {
		if !slices.Contains(known, mark) && strings.Contains(strings.Join(words, " "), mark) {
			return mark
		}
	}
	return ""
}

// FillWords replaces the placeholders in the words of a command by the job, the program and the
// socket.
func (r *Remote) FillWords(words []string, job string) []string {
	program := r.Program
	if program == "" {
		program = "repl"
	}
	fill := strings.NewReplacer(JobPlaceholder, job, programPlaceholder, program, socketPlaceholder, r.Socket)
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = fill.Replace(w)
	}
	return all
}
