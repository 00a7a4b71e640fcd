package cli

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/terminal"
)

// Where the inputs that are typed at a terminal are remembered.
const (
	historyUser    = "user"
	historyProject = "project"
	historyNone    = "none"
)

// atTerminal has the flags of commands for a person at a terminal.
type atTerminal struct{ history string }

func (a *atTerminal) define(f *flag.FlagSet) {
	f.StringVar(&a.history, "history", historyUser, "`user|project|none` what Up recalls: your inputs in this language, those in this project, or those of this session only")
}

func (a *atTerminal) check() error {
	switch a.history {
	case historyUser, historyProject, historyNone:
		return nil
	}
	return misuse("--history %q: use %s, %s or %s", a.history, historyUser, historyProject, historyNone)
}

// options returns the options for a terminal that all commands share. dir is the directory of
// the session; "" means the current one.
func (a *atTerminal) options(lang language, dir string) *terminal.Options {
	dumb := isDumb()
	syntax := lang.syntax
	if dumb && syntax != nil { // it could not show that an indentation goes again
		plain := *syntax
		plain.Indent = 0
		syntax = &plain
	}
	return &terminal.Options{
		Continuation: lang.continuation,
		HistoryPath:  a.historyPath(lang.name, dir),
		Graphics:     terminal.DetectGraphics(os.Getenv),
		Plain:        dumb,
		Syntax:       syntax,
		Habits:       lang.habits,
		Quit:         lang.quit,
		Colour:       !dumb && os.Getenv("NO_COLOR") == "",
		Vi:           terminal.ViKeys(os.Getenv),
		Editor:       terminal.EditorOf(os.Getenv),
		ExitStatus:   exitStatus,
	}
}

// isDumb reports whether the terminal can do no more than show text. Systems without TERM are
// Windows, whose console can.
func isDumb() bool { return os.Getenv("TERM") == "dumb" }

// historyPath returns the file of a language's history, or "" if there is none.
func (a *atTerminal) historyPath(lang, dir string) string {
	state := stateDir()
	if state == "" || a.history == historyNone {
		return ""
	}
	name := "history-" + strings.ReplaceAll(lang, ":", "-") // no file of Windows has a colon
	if a.history == historyProject {
		project, err := projectOf(dir)
		if err != nil {
			return ""
		}
		hash := sha256.Sum256([]byte(project)) // projects may have the same name
		name += fmt.Sprintf("-%s-%x", filepath.Base(project), hash[:4])
	}
	return filepath.Join(state, name)
}

// projectOf returns the nearest directory above dir that is a repository, or dir itself.
func projectOf(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		for _, sign := range []string{".git", ".hg", ".svn"} {
			if _, err := os.Lstat(filepath.Join(at, sign)); err == nil {
				return at, nil
			}
		}
		if at == filepath.Dir(at) {
			return dir, nil
		}
	}
}
