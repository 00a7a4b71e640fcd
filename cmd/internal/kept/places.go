package kept

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

	"github.com/turnstone-repl/turnstone/internal/prefix"
	"github.com/turnstone-repl/turnstone/internal/spelling"
)

// HerePlace is the name of this machine among places. No entry of the file may have it.
const HerePlace = "here"

// A Place is where a daemon is, reached by a command.
type Place struct {
	Via    string `toml:"via"`    // the command, as a shell would split it; it may have {job}
	Repl   string `toml:"repl"`   // the program there; "" is repl on PATH, or the one that was installed
	Socket string `toml:"socket"` // the daemon's socket there; "" is the user's usual one
	Dir    string `toml:"dir"`    // where sessions start there; "" is the daemon's own directory
	Wait   string `toml:"wait"`   // for the command to get through; "" is 20 s
	Login  bool   `toml:"login"`  // a daemon that is started gets the environment of a login

	// Install allows everybody who goes there, an agent also, to bring the program there if it is
	// not there.
	Install bool `toml:"install"`

	// Start is a command here that prints the name of the job which {job} in Via stands for. It may
	// have {repl} and {socket}.
	Start string `toml:"start"`

	// After is a command here that says what became of the place when it cannot be reached. It may
	// have {job}.
	After string `toml:"after"`

	// Prefix, StartWords and AfterWords are the words of Via, Start and After, Patience is Wait.
	Prefix, StartWords, AfterWords []string      `toml:"-"`
	Patience                       time.Duration `toml:"-"`
}

// These stand for the job, the program and the socket in commands of a place.
const (
	JobMark    = "{job}"
	replMark   = "{repl}"
	socketMark = "{socket}"
)

// PlacesFile is the user's file of places, places.toml beside sandbox.toml, by its path; "" when
// there is no home directory.
func PlacesFile(getenv func(string) string) string {
	return besideDefault(getenv, "places.toml")
}

// placeName is a word that means the same to every shell, and that a session's name can follow.
var placeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// IsPlaceName reports whether a place may have that name.
func IsPlaceName(name string) bool { return placeName.MatchString(name) }

// Places reads the file. One that is not there has none. An error names the line. A prefix is a
// command, so the file must be the user's alone.
func Places(path string) (map[string]Place, error) {
	text, err := ownFile(path)
	if text == nil || err != nil {
		return nil, err
	}
	var file struct {
		Places map[string]Place `toml:"places"`
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s, %s%s", path, position(err), meant(err))
	}
	for name, p := range file.Places {
		if err := p.check(name); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, lineOf(text, "[places."+name), err)
		}
		file.Places[name] = p
	}
	return file.Places, nil
}

// meant suggests the setting that an unknown one may have been meant for.
func meant(err error) string {
	missing, ok := errors.AsType[*toml.StrictMissingError](err)
	if !ok {
		return ""
	}
	key := missing.Errors[0].Key()
	best, least := "", 3
	for _, known := range placeSettings() {
		if d := spelling.Distance(key[len(key)-1], known); d < least {
			best, least = known, d
		}
	}
	if best == "" {
		return "; a place has " + strings.Join(placeSettings(), ", ")
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// placeSettings are the settings of a place.
func placeSettings() []string {
	var all []string
	for f := range reflect.TypeFor[Place]().Fields() {
		if name := f.Tag.Get("toml"); name != "-" {
			all = append(all, name)
		}
	}
	return all
}

func (p *Place) check(name string) (err error) {
	switch {
	case !IsPlaceName(name):
		return fmt.Errorf("%q: a place's name has up to 32 letters, digits, dots, underscores and hyphens", name)
	case name == HerePlace:
		return fmt.Errorf("%q is the name of this machine", name)
	case p.Via == "":
		return fmt.Errorf("%s has no via, the command that leads there", name)
	case p.Repl != "" && !prefix.IsPlainWord(p.Repl):
		return fmt.Errorf("repl of %s: %q: use letters, digits and _ . / = - only", name, p.Repl)
	case p.Socket != "" && !prefix.IsPlainWord(p.Socket):
		return fmt.Errorf("socket of %s: %q: use letters, digits and _ . / = - only", name, p.Socket)
	case p.Dir != "" && !strings.HasPrefix(p.Dir, "/") && !filepath.IsAbs(p.Dir):
		return fmt.Errorf("dir of %s: %q: give an absolute path of the place", name, p.Dir)
	case p.Wait != "":
		if p.Patience, err = time.ParseDuration(p.Wait); err != nil || p.Patience < time.Second || p.Patience > 24*time.Hour {
			return fmt.Errorf("wait of %s: %q: use a time from 1s to 24h, such as 10m", name, p.Wait)
		}
	}
	for _, c := range []struct {
		setting, command string
		words            *[]string
		marks            []string
	}{
		{"via", p.Via, &p.Prefix, []string{JobMark}},
		{"start", p.Start, &p.StartWords, []string{replMark, socketMark}},
		{"after", p.After, &p.AfterWords, []string{JobMark}},
	} {
		if c.command == "" {
			continue
		}
		if *c.words, err = prefix.SplitWords(c.command); err != nil {
			return fmt.Errorf("%s of %s: %w", c.setting, name, err)
		}
		if mark := misplaced(*c.words, c.marks); mark != "" {
			return fmt.Errorf("%s of %s: %s stands for nothing here: it may have %s", c.setting, name, mark, strings.Join(c.marks, " and "))
		}
	}
	return p.checkJob(name)
}

// checkJob refuses commands for a job that are not complete.
func (p *Place) checkJob(name string) error {
	switch {
	case p.NeedsJob() && p.Start == "":
		return fmt.Errorf("via of %s has %s: give start, the command that prints it", name, JobMark)
	case !p.NeedsJob() && p.Start != "":
		return fmt.Errorf("start of %s prints the name of a job: put %s where it belongs in via", name, JobMark)
	case strings.Contains(p.Start, socketMark) && p.Socket == "":
		return fmt.Errorf("start of %s has {socket}: give socket, a path there", name)
	}
	return nil
}

// NeedsJob reports whether the place is reached by way of a job.
func (p *Place) NeedsJob() bool { return strings.Contains(p.Via, JobMark) }

// misplaced returns what stands for something in other commands than this one.
func misplaced(words, known []string) string {
	for _, mark := range []string{JobMark, replMark, socketMark} {
		if !slices.Contains(known, mark) && strings.Contains(strings.Join(words, " "), mark) {
			return mark
		}
	}
	return ""
}

// Filled are the words of a command with the job, the program and the socket in their places.
func (p *Place) Filled(words []string, job string) []string {
	program := p.Repl
	if program == "" {
		program = "repl"
	}
	fill := strings.NewReplacer(JobMark, job, replMark, program, socketMark, p.Socket)
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = fill.Replace(w)
	}
	return all
}
