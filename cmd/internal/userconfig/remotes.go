package userconfig

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

// LocalRemote is the name of this machine among places. No entry of the file may have it.
const LocalRemote = "here"

// A Remote is where a daemon is, reached by a command.
type Remote struct {
	Command        string `toml:"via"`    // the command, as a shell would split it; it may have {job}
	Program        string `toml:"repl"`   // the program there; "" is repl on PATH, or the one that was installed
	Socket         string `toml:"socket"` // the daemon's socket there; "" is the user's usual one
	Dir            string `toml:"dir"`    // where sessions start there; "" is the daemon's own directory
	ConnectTimeout string `toml:"wait"`   // for the command to get through; "" is 20 s
	Login          bool   `toml:"login"`  // a daemon that is started gets the environment of a login

	// Install allows everybody who goes there, an agent also, to bring the program there if it is
	// not there.
	Install bool `toml:"install"`

	// Start is a command here that prints the name of the job which {job} in Via stands for. It may
	// have {repl} and {socket}.
	Start string `toml:"start"`

	// Cleanup is a command here that says what became of the place when it cannot be reached. It may
	// have {job}.
	Cleanup string `toml:"after"`

	// Prefix, StartWords and CleanupWords are the words of Via, Start and After, Patience is Wait.
	Prefix, StartWords, CleanupWords []string      `toml:"-"`
	Timeout                          time.Duration `toml:"-"`
}

// These stand for the job, the program and the socket in commands of a place.
const (
	JobPlaceholder     = "{job}"
	programPlaceholder = "{repl}"
	socketPlaceholder  = "{socket}"
)

// RemotesFile is the user's file of places, places.toml beside sandbox.toml, by its path; "" when
// there is no home directory.
func RemotesFile(getenv func(string) string) string {
	return configPath(getenv, "places.toml")
}

// remoteName is a word that means the same to every shell, and that a session's name can follow.
var remoteName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// IsRemoteName reports whether a place may have that name.
func IsRemoteName(name string) bool { return remoteName.MatchString(name) }

// ReadRemotes reads the file. One that is not there has none. An error names the line. A prefix is a
// command, so the file must be the user's alone.
func ReadRemotes(path string) (map[string]Remote, error) {
	text, err := readPrivateFile(path)
	if text == nil || err != nil {
		return nil, err
	}
	var file struct {
		Places map[string]Remote `toml:"places"`
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s, %s%s", path, errorPosition(err), suggestSetting(err))
	}
	for name, p := range file.Places {
		if err := p.parse(name); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, findLine(text, "[places."+name), err)
		}
		file.Places[name] = p
	}
	return file.Places, nil
}

// suggestSetting suggests the setting that an unknown one may have been meant for.
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
		return "; a place has " + strings.Join(remoteSettings(), ", ")
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// remoteSettings are the settings of a place.
func remoteSettings() []string {
	var all []string
	for f := range reflect.TypeFor[Remote]().Fields() {
		if name := f.Tag.Get("toml"); name != "-" {
			all = append(all, name)
		}
	}
	return all
}

func (p *Remote) parse(name string) (err error) {
	switch {
	case !IsRemoteName(name):
		return fmt.Errorf("%q: a place's name has up to 32 letters, digits, dots, underscores and hyphens", name)
	case name == LocalRemote:
		return fmt.Errorf("%q is the name of this machine", name)
	case p.Command == "":
		return fmt.Errorf("%s has no via, the command that leads there", name)
	case p.Program != "" && !transportcmd.IsPlainWord(p.Program):
		return fmt.Errorf("repl of %s: %q: use letters, digits and _ . / = - only", name, p.Program)
	case p.Socket != "" && !transportcmd.IsPlainWord(p.Socket):
		return fmt.Errorf("socket of %s: %q: use letters, digits and _ . / = - only", name, p.Socket)
	case p.Dir != "" && !strings.HasPrefix(p.Dir, "/") && !filepath.IsAbs(p.Dir):
		return fmt.Errorf("dir of %s: %q: give an absolute path of the place", name, p.Dir)
	case p.ConnectTimeout != "":
		if p.Timeout, err = time.ParseDuration(p.ConnectTimeout); err != nil || p.Timeout < time.Second || p.Timeout > 24*time.Hour {
			return fmt.Errorf("wait of %s: %q: use a time from 1s to 24h, such as 10m", name, p.ConnectTimeout)
		}
	}
	for _, c := range []struct {
		setting, command string
		words            *[]string
		marks            []string
	}{
		{"via", p.Command, &p.Prefix, []string{JobPlaceholder}},
		{"start", p.Start, &p.StartWords, []string{programPlaceholder, socketPlaceholder}},
		{"after", p.Cleanup, &p.CleanupWords, []string{JobPlaceholder}},
	} {
		if c.command == "" {
			continue
		}
		if *c.words, err = transportcmd.SplitWords(c.command); err != nil {
			return fmt.Errorf("%s of %s: %w", c.setting, name, err)
		}
		if mark := misplacedPlaceholder(*c.words, c.marks); mark != "" {
			return fmt.Errorf("%s of %s: %s stands for nothing here: it may have %s", c.setting, name, mark, strings.Join(c.marks, " and "))
		}
	}
	return p.parseJob(name)
}

// parseJob refuses commands for a job that are not complete.
func (p *Remote) parseJob(name string) error {
	switch {
	case p.NeedsJob() && p.Start == "":
		return fmt.Errorf("via of %s has %s: give start, the command that prints it", name, JobPlaceholder)
	case !p.NeedsJob() && p.Start != "":
		return fmt.Errorf("start of %s prints the name of a job: put %s where it belongs in via", name, JobPlaceholder)
	case strings.Contains(p.Start, socketPlaceholder) && p.Socket == "":
		return fmt.Errorf("start of %s has {socket}: give socket, a path there", name)
	}
	return nil
}

// NeedsJob reports whether the place is reached by way of a job.
func (p *Remote) NeedsJob() bool { return strings.Contains(p.Command, JobPlaceholder) }

// misplacedPlaceholder returns what stands for something in other commands than this one.
func misplacedPlaceholder(words, known []string) string {
	for _, mark := range []string{JobPlaceholder, programPlaceholder, socketPlaceholder} {
		if !slices.Contains(known, mark) && strings.Contains(strings.Join(words, " "), mark) {
			return mark
		}
	}
	return ""
}

// FillWords are the words of a command with the job, the program and the socket in their places.
func (p *Remote) FillWords(words []string, job string) []string {
	program := p.Program
	if program == "" {
		program = "repl"
	}
	fill := strings.NewReplacer(JobPlaceholder, job, programPlaceholder, program, socketPlaceholder, p.Socket)
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = fill.Replace(w)
	}
	return all
}
