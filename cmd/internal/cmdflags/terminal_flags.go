package cmdflags

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/console"
	"github.com/turnstone-repl/turnstone/cmd/internal/console/inputrc"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Where inputs typed at a terminal are saved.
const (
	historyUser    = "user"
	historyProject = "project"
	historyNone    = "none"
)

// TerminalFlags holds the flags of commands that are used at a terminal.
type TerminalFlags struct{ history string }

// AddFlags adds the flag that says which inputs are recalled.
func (t *TerminalFlags) AddFlags(f *flag.FlagSet) {
	f.StringVar(&t.history, "history", historyUser, "`user|project|none` what Up recalls: all your inputs in this language, those in this project, or only those of this session")
}

// ValidateHistory returns a usage error for an unknown value of the flag.
func (t *TerminalFlags) ValidateHistory() error {
	switch t.history {
	case historyUser, historyProject, historyNone:
		return nil
	}
	return cmdkit.UsageErrorf("--history %q: use %s, %s or %s", t.history, historyUser, historyProject, historyNone)
}

// TerminalOptions returns the options for a terminal that all commands share. dir is the directory
// of the session; "" means the current one.
func (t *TerminalFlags) TerminalOptions(lang languages.Language, dir string) *console.Options {
	dumb := cmdkit.IsDumbTerminal()
	syntax := lang.Syntax
	if dumb && syntax != nil { // a dumb terminal cannot show that an indentation is removed
		plain := *syntax
		plain.IndentWidth = 0
		syntax = &plain
	}
	return &console.Options{
		Continuation:   lang.Continuation,
		HistoryPath:    t.historyPath(lang.Name, dir),
		ImageProtocol:  console.DetectImageProtocol(os.Getenv),
		Plain:          dumb,
		Syntax:         syntax,
		TranslateAlias: lang.TranslateInput,
		QuitInput:      lang.QuitInput,
		Colour:         !dumb && os.Getenv("NO_COLOR") == "",
		ViKeys:         inputrc.ReadViMode(os.Getenv),
		EditorCommand:  console.FindEditor(os.Getenv),
		ExitStatus:     WorkerExitStatus,
	}
}

// WorkerExitStatus returns the exit status that stands for a worker's end.
func WorkerExitStatus(end timeline.WorkerExited) int {
	return cmdkit.ExitStatus(end.ExitCode, end.Signal)
}

// historyPath returns the history file of a language, or "" if no history is saved.
func (t *TerminalFlags) historyPath(lang, dir string) string {
	state := cmdkit.StateDir()
	if state == "" || t.history == historyNone {
		return ""
	}
	name := "history-" + strings.ReplaceAll(lang, ":", "-") // file names on Windows have no colon
	if t.history == historyProject {
		project, err := projectRoot(dir)
		if err != nil {
			return ""
		}
		hash := sha256.Sum256([]byte(project)) // projects may have the same name
		name += fmt.Sprintf("-%s-%x", filepath.Base(project), hash[:4])
	}
	return filepath.Join(state, name)
}

// projectRoot returns the nearest repository that contains dir, or dir itself.
func projectRoot(dir string) (string, error) {
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
