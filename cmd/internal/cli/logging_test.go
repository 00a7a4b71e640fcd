package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestLogFile_StaysWithinItsBoundAndKeepsOneOlder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "made", "log")
	// Two programs that share it.
	var all sync.WaitGroup
	for i := range 2 {
		l, err := openLog(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.file.Close() }()
		all.Go(func() {
			for n := range 3000 {
				if _, err := fmt.Fprintf(l, "%d %d %s\n", i, n, strings.Repeat("x", 1000)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, name := range []string{path, path + ".old"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) == 0 || len(text) > maxLogBytes+2<<10 { // who shares it may write between the look and the line
			t.Errorf("%s has %d bytes, the bound is %d", name, len(text), maxLogBytes)
		}
		for line := range bytes.Lines(text) {
			if len(line) < 1000 || line[len(line)-1] != '\n' {
				t.Fatalf("%s has a line that is not whole: %.50q", name, line)
			}
		}
	}
	if all, _ := filepath.Glob(path + "*"); len(all) != 2 {
		t.Errorf("got files %v", all)
	}
}

func TestLogFile_IsForTheUserAloneAndMadeAgainWhenItWasRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.file.Close() }()
	fmt.Fprintln(l, "first")
	if os.Remove(path) != nil { // Windows removes no open file
		t.Skip("the system removes no file that is open")
	}
	fmt.Fprintln(l, "second")
	text, err := os.ReadFile(path)
	if i, _ := os.Stat(path); err != nil || string(text) != "second\n" || i.Mode().Perm()&0o077 != 0 {
		t.Errorf("got %q, %v, %v", text, i, err)
	}
}

func TestLog_GoesWhereItWasChosenTo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		name         string
		choice       logChoice
		said, stderr string // the levels
	}{
		{"warnings are on standard error", logChoice{}, "", "WARN ERROR"},
		{"a file has what happens, too", logChoice{file: file}, "INFO WARN ERROR", "WARN ERROR"},
		{"as much as was asked for", logChoice{file: file, level: "debug"}, "DEBUG INFO WARN ERROR", "WARN ERROR"},
		{"a level without a file is for standard error", logChoice{level: "info"}, "", "INFO WARN ERROR"},
	} {
		_ = os.Remove(file)
		var stderr bytes.Buffer
		log, err := c.choice.logger(&stderr)
		if err != nil {
			t.Fatal(err)
		}
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(t.Context(), level, "word")
		}
		text, _ := os.ReadFile(file)
		if got := levels(string(text)); got != c.said {
			t.Errorf("%s: the file has %q, want %q", c.name, got, c.said)
		}
		if got := levels(stderr.String()); got != c.stderr {
			t.Errorf("%s: standard error has %q, want %q", c.name, got, c.stderr)
		}
	}
	if _, err := (&logChoice{level: "much"}).logger(nil); err == nil {
		t.Error("a level that there is not was taken")
	}
	log, err := (&logChoice{}).logger(nil)
	if err != nil || log.Enabled(t.Context(), slog.LevelError) {
		t.Errorf("a command with words of its own logs to standard error, too: %v", err)
	}
}

// levels are those of the lines of a log.
func levels(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, "level=")
		level, _, _ := strings.Cut(rest, " ")
		all = append(all, level)
	}
	return strings.Join(all, " ")
}
