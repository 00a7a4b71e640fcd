package templates_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers/templates"
)

func TestWrite(t *testing.T) {
	for _, name := range templates.Names() {
		dir := filepath.Join(t.TempDir(), "mine")
		next, err := templates.Write(name, dir)
		if err != nil {
			t.Fatal(err)
		}
		command := templates.WorkerCommand(name, dir)
		program := command[len(command)-1]
		build := strings.Join(templates.BuildCommand(name), " ")
		for _, file := range []string{program, filepath.Join(dir, "dialect.json")} {
			_, err := os.Stat(file)
			if made := build != "" && file == program; made != (err != nil) || !strings.Contains(next, file) || !strings.Contains(next, build) {
				t.Errorf("%s: %v, and the next steps are %q", file, err, next)
			}
		}
	}
	if slices.Contains(templates.Names(), "") || templates.WorkerCommand("cobol", "") != nil {
		t.Error("an unknown template was found")
	}
}

func TestWrite_Errors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for want, name := range map[string]string{"already exists": "node", "unknown template": "cobol"} {
		if _, err := templates.Write(name, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}
