package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A reader finds a record by the index, which has a row for each, with its title and status.
func TestRecordIndex(t *testing.T) {
	t.Parallel()
	tr := load(t)
	dir := filepath.Join(tr.root, "docs", "adr")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found no records: %v", err)
	}
	head := regexp.MustCompile(`^# (\d+)\. (.*)\n\nDate: .*\nStatus: (.*)\n`)
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		m := head.FindStringSubmatch(string(text))
		if m == nil {
			continue // TestDocuments says so
		}
		row := "| [" + m[1] + "](" + filepath.Base(p) + ") | " + m[2] + " | " + m[3] + " |"
		if !strings.Contains(string(index), row+"\n") {
			t.Errorf("docs/adr/README.md lacks the row\n%s", row)
		}
	}
}
