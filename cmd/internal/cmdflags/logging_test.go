package cmdflags

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// newLogDir returns a directory for logs. The test does not fail if it cannot be removed: the Go
// runtime keeps a log open for its crash output, and Windows removes no open files.
func newLogDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "logs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestLogFile(t *testing.T) {
	t.Parallel()

	t.Run("stays within its size and keeps one older file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(newLogDir(t), "made", "log")
		programs := 2 // that share the log
		if keepsOpenFiles {
			programs = 1 // a line may be cut where one program copies what another writes
		}
		var all sync.WaitGroup
		for i := range programs {
			l, err := OpenLog(path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.file.Close() }()
			all.Go(func() {
				for n := range 6000 / programs {
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
			if len(text) == 0 || len(text) > maxLogBytes+2<<10 { // the other program may write between the check and the line
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
	})

	t.Run("is private and is created again after its removal", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(newLogDir(t), "log")
		l, err := OpenLog(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.file.Close() }()
		fmt.Fprintln(l, "first")
		want := "second\n"
		if err := os.Remove(path); keepsOpenFiles {
			want = "first\nsecond\n"
		} else if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(l, "second")
		text, err := os.ReadFile(path)
		if err != nil || string(text) != want {
			t.Errorf("got %q, %v, want %q", text, err, want)
		}
		if i, err := os.Stat(path); err != nil || !keepsOpenFiles && i.Mode().Perm()&0o077 != 0 {
			t.Errorf("got %v, %v", i, err)
		}
	})
}

func TestOpenLogger(t *testing.T) {
	t.Parallel()
	dir := newLogDir(t)
	file := filepath.Join(dir, "log")
	for i, c := range []struct {
		name         string
		choice       LogFlags
		said, stderr string // the levels
	}{
		{"warnings are on standard error", LogFlags{}, "", "WARN ERROR"},
		{"a file also has information", LogFlags{File: file}, "INFO WARN ERROR", "WARN ERROR"},
		{"the level of --log-level is used", LogFlags{File: file, Level: "debug"}, "DEBUG INFO WARN ERROR", "WARN ERROR"},
		{"a level without a file applies to standard error", LogFlags{Level: "info"}, "", "INFO WARN ERROR"},
	} {
		if c.choice.File != "" {
			c.choice.File += strconv.Itoa(i)
		}
		var stderr bytes.Buffer
		log, err := c.choice.OpenLogger(&stderr)
		if err != nil {
			t.Fatal(err)
		}
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(t.Context(), level, "word")
		}
		text, _ := os.ReadFile(c.choice.File)
		if got := logLevels(string(text)); got != c.said {
			t.Errorf("%s: the file has %q, want %q", c.name, got, c.said)
		}
		if got := logLevels(stderr.String()); got != c.stderr {
			t.Errorf("%s: standard error has %q, want %q", c.name, got, c.stderr)
		}
	}
	if _, err := (&LogFlags{Level: "much"}).OpenLogger(nil); err == nil {
		t.Error("an unknown level was accepted")
	}
	log, err := (&LogFlags{}).OpenLogger(nil)
	if err != nil || log.Enabled(t.Context(), slog.LevelError) {
		t.Errorf("a command that prints its own messages also logs to standard error: %v", err)
	}
}

// logLevels returns the levels of the lines of a log.
func logLevels(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, "level=")
		level, _, _ := strings.Cut(rest, " ")
		all = append(all, level)
	}
	return strings.Join(all, " ")
}
