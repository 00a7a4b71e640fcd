package terminal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHistory_LinesComeBackInOrder(t *testing.T) {
	h := history{filepath.Join(t.TempDir(), "state", "turnstone", "history")}
	if lines, err := h.load(); len(lines) > 0 || err != nil {
		t.Fatalf("before the first line: got %q, %v, want nothing", lines, err)
	}
	for _, line := range []string{"x = 1", "", "    indented", "   ", strings.Repeat("x", maxHistoryLine+1), "ü"} {
		if err := h.add(line); err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.load()
	if want := []string{"x = 1", "    indented", "ü"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestHistory_FileIsTheUsersAlone(t *testing.T) {
	h := history{filepath.Join(t.TempDir(), "turnstone", "history")}
	if err := h.add("secret = 1"); err != nil {
		t.Fatal(err)
	}
	wantMode(t, h.path, 0o600)
	if err := h.rewrite([]string{"x"}); err != nil {
		t.Fatal(err)
	}
	wantMode(t, h.path, 0o600) // also of the one that takes its place
}

func TestHistory_OverflowDropsTheOldestAndShrinksTheFile(t *testing.T) {
	h := history{filepath.Join(t.TempDir(), "history")}
	var all []string
	for i := range 2*historyLines + 10 {
		all = append(all, fmt.Sprintf("line %d", i))
	}
	if err := os.WriteFile(h.path, []byte(strings.Join(all, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := h.load()
	if want := all[len(all)-historyLines:]; err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %d lines from %q, %v, want %d from %q", len(got), got[0], err, len(want), want[0])
	}
	data, err := os.ReadFile(h.path)
	if err != nil || strings.Count(string(data), "\n") != historyLines {
		t.Errorf("the file has %d lines, %v, want %d", strings.Count(string(data), "\n"), err, historyLines)
	}
}

func TestHistory_WithoutAPathRemembersNothing(t *testing.T) {
	var h history
	if err := h.add("x"); err != nil {
		t.Error(err)
	}
	if lines, err := h.load(); lines != nil || err != nil {
		t.Errorf("got %q, %v, want nothing", lines, err)
	}
}
