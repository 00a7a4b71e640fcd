package console

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/console/ttymode"
)

// FindEditor returns the command of the user's editor.
func FindEditor(getenv func(string) string) string {
	return cmp.Or(getenv("VISUAL"), getenv("EDITOR"), ttymode.DefaultEditor)
}

// editExternally lets the user's own editor edit the text. It does not run the result.
func (e *lineEditor) editExternally(text string) {
	changed, err := e.runEditor(text)
	if err != nil {
		_, _ = fmt.Fprintf(e, "[the text was not edited: %v]\n", err)
		return
	}
	e.line.SetText(strings.TrimRight(changed, "\n"))
}

// runEditor runs the editor on a file with text, and returns the file's content afterwards.
func (e *lineEditor) runEditor(text string) (string, error) {
	words := strings.Fields(e.editorCommand) // splits the command at blanks, because no shell runs it
	if len(words) == 0 {
		return "", fmt.Errorf("$VISUAL and $EDITOR name no program")
	}
	dir, err := os.MkdirTemp("", "repl-edit-") // of mode 0700
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, e.tempFilename())
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(words[0], append(words[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	resume, err := e.tty.PauseReading()
	if err != nil {
		return "", err
	}
	defer resume()
	e.lendTerminal(func() { err = cmd.Run() })
	if err != nil {
		return "", fmt.Errorf("%s: %w", words[0], err)
	}
	data, err := os.ReadFile(path)
	return strings.ReplaceAll(string(data), "\r\n", "\n"), err
}

func (e *lineEditor) tempFilename() string {
	if s := e.options.Syntax; s != nil && s.Filename != "" {
		return s.Filename
	}
	return "input.txt"
}
