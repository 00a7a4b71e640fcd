package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The index has a row for each record, with its title and status, and a row for each number whose
// record is now part of a comment or a page. So a number leads somewhere, and is never used again.
func TestRecordIndex(t *testing.T) {
	t.Parallel()
	tr := load(t)
	dir := filepath.Join(tr.root, "docs", "adr")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found no records: %v", err)
	}
	head := regexp.MustCompile(`^# (\d+)\. (.*)\n\nDate: .*\nStatus: (.*)\n`)
	seen := make(map[int]bool)
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		m := head.FindStringSubmatch(string(text))
		if m == nil {
			continue // TestDocuments reports it
		}
		row := "| [" + m[1] + "](" + filepath.Base(p) + ") | " + m[2] + " | " + m[3] + " |"
		if !strings.Contains(string(index), row+"\n") {
			t.Errorf("docs/adr/README.md lacks the row\n%s", row)
		}
		number, _ := strconv.Atoi(m[1])
		seen[number] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| .+ \| .+ \|$`).FindAllStringSubmatch(string(index), -1) {
		number, _ := strconv.Atoi(m[1])
		if seen[number] {
			t.Errorf("docs/adr/README.md has two rows for %d", number)
		}
		seen[number] = true
	}
	last := 0
	for number := range seen {
		last = max(last, number)
	}
	for number := 1; number <= last; number++ {
		if !seen[number] {
			t.Errorf("docs/adr/README.md has no row for %d", number)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(\.\./\.\./([^)#]+)\), section "([^"]+)"`).FindAllStringSubmatch(string(index), -1) {
		source, err := os.ReadFile(filepath.Join(tr.root, filepath.FromSlash(m[1])))
		if err != nil || strings.Count(string(source), "\n// # "+m[2]+"\n") != 1 {
			t.Errorf("docs/adr/README.md: want one section %q in %s", m[2], m[1])
		}
	}
	cited := regexp.MustCompile(`\bADRs? (\d+)\b`)
	for name, text := range tr.texts(t) {
		for _, m := range cited.FindAllStringSubmatch(text, -1) {
			if matches, _ := filepath.Glob(filepath.Join(dir, "0*"+m[1]+"-*.md")); len(matches) == 0 {
				t.Errorf("%s cites %s, which has no record", name, m[0])
			}
		}
	}
}
