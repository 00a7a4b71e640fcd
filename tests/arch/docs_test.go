package arch

import (
	"encoding/json"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestDocuments(t *testing.T) {
	t.Parallel()

	t.Run("relative links lead somewhere", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
		scheme := regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
		for name, text := range tr.texts(t) {
			if path.Ext(name) != ".md" {
				continue
			}
			for _, match := range link.FindAllStringSubmatch(withoutCode(text), -1) {
				if scheme.MatchString(match[1]) {
					continue
				}
				target, anchor, _ := strings.Cut(match[1], "#")
				to := name
				if target != "" {
					to = path.Join(path.Dir(name), target)
				}
				if _, err := os.Stat(filepath.Join(tr.root, filepath.FromSlash(to))); err != nil {
					t.Errorf("%s links to %s, which is not there", name, match[1])
					continue
				}
				if anchor == "" {
					continue
				}
				data, err := os.ReadFile(filepath.Join(tr.root, filepath.FromSlash(to)))
				if err != nil || !headings(string(data))[anchor] {
					t.Errorf("%s links to %s, but %s has no such heading", name, match[1], to)
				}
			}
		}
	})

	// A document names a test as the check of a promise, so the test must exist.
	t.Run("named tests and paths exist", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		functions := make(map[string]map[string]bool) // by name, with the names of their sub-tests
		for _, p := range tr.pkgs {
			for _, f := range p.files {
				for _, d := range f.ast.Decls {
					if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
						if functions[fn.Name.Name] == nil {
							functions[fn.Name.Name] = make(map[string]bool)
						}
						for _, name := range subTests(fn) {
							functions[fn.Name.Name][name] = true
						}
					}
				}
			}
		}
		named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*(?:_[A-Za-z0-9_]*)?)([*…]|\\.\\.\\.)?(?:/([^`]+))?`")
		wire, err := os.ReadFile(filepath.Join(tr.root, "client", "protocol", "messages.go"))
		if err != nil {
			t.Fatal(err)
		}
		ours := regexp.MustCompile("`((?:cmd|client|docs|ipc|scripts|supervisor|tests|timeline|workers|\\.ci)/[A-Za-z0-9_./-]+)`")
		for name, text := range tr.texts(t) {
			if path.Ext(name) != ".md" {
				continue
			}
			for _, match := range named.FindAllStringSubmatch(text, -1) {
				if strings.HasSuffix(match[1], "_") || match[2] != "" { // all tests with that beginning
					begins := func(name string) bool { return strings.HasPrefix(name, match[1]) }
					if !slices.ContainsFunc(slices.Collect(maps.Keys(functions)), begins) {
						t.Errorf("%s names %s, but no test of this tree begins so", name, match[0])
					}
					continue
				}
				if sub, ok := functions[match[1]]; !ok || match[3] != "" && !sub[match[3]] {
					t.Errorf("%s names %s, which is not a test of this tree", name, match[0])
				}
			}
			for _, match := range ours.FindAllStringSubmatch(text, -1) {
				if strings.Contains(string(wire), strconv.Quote(match[1])) {
					continue // a method of the daemon
				}
				if _, err := os.Stat(filepath.Join(tr.root, filepath.FromSlash(match[1]))); err != nil {
					t.Errorf("%s names %s, which is not there", name, match[1])
				}
			}
		}
	})

	// The program on this page is the first that people copy.
	t.Run("programs on the page about embedding compile", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		data, err := os.ReadFile(filepath.Join(tr.root, "docs", "embedding.md"))
		if err != nil {
			t.Fatal(err)
		}
		programs := regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```").FindAllSubmatch(data, -1)
		if len(programs) == 0 {
			t.Fatal("docs/embedding.md has no program")
		}
		for _, program := range programs {
			source := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(source, program[1], 0o600); err != nil {
				t.Fatal(err)
			}
			// The overlay puts the file into the module, so that it may import internal packages.
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
				filepath.Join(tr.root, "tests", "arch", "example", "main.go"): source,
			}})
			if err != nil {
				t.Fatal(err)
			}
			config := filepath.Join(t.TempDir(), "overlay.json")
			if err := os.WriteFile(config, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, tr.root, "go", "build", "-buildvcs=false", "-overlay", config, "-o", os.DevNull, "./tests/arch/example")
		}
	})

	t.Run("decision records are complete", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		paths, err := filepath.Glob(filepath.Join(tr.root, "docs", "adr", "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"Context", "Options considered", "Decision", "Consequences", "Confirmation"}
		title := regexp.MustCompile(`^# (\d+)\. \S.*\n\nDate: \d{4}-\d{2}-\d{2}\nStatus: (Proposed|Accepted|Superseded by \d+|Rejected|Withdrawn)\n`)
		section := regexp.MustCompile(`(?m)^## (.+)$`)
		found := 0
		for _, p := range paths {
			name := filepath.Base(p)
			if name == "README.md" {
				continue
			}
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			digits, _, _ := strings.Cut(name, "-")
			number, err := strconv.Atoi(digits)
			if err != nil || len(digits) != 4 {
				t.Errorf("docs/adr/%s: want a name that begins with a number of four digits", name)
			}
			found++
			head := title.FindStringSubmatch(string(data))
			if head == nil || head[1] != strconv.Itoa(number) {
				t.Errorf("docs/adr/%s: want it to begin with its number and title, a date and a status", name)
			}
			var got []string
			for _, match := range section.FindAllStringSubmatch(string(data), -1) {
				got = append(got, match[1])
			}
			if strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("docs/adr/%s: got sections %q, want %q", name, got, want)
			}
		}
		if found == 0 {
			t.Error("found no records in docs/adr")
		}
	})

	// Tracked files describe the program. They must not name the machine on which they were written, or
	// contain notes about unfinished work, which belong in an issue.
	t.Run("no text tells how the tree was made", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		telling := regexp.MustCompile(`/(?:root|work/[a-z]+|home/[a-z]+)/|\b(?:TODO|FIXME|XXX|HACK)\b|(?i:co-authored-by:|generated (?:by|with) (?:an? )?(?:ai|llm|model)\b|\bas an ai\b)`)
		for name, text := range tr.texts(t) {
			if name == "tests/arch/docs_test.go" || name == "go.sum" {
				continue
			}
			for _, at := range telling.FindAllStringIndex(text, -1) {
				t.Errorf("%s:%d: %q", name, 1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]])
			}
		}
	})
}

// subTests returns the names of the sub-tests that a function runs by a literal name.
func subTests(fn *ast.FuncDecl) (names []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if run, ok := call.Fun.(*ast.SelectorExpr); ok && run.Sel.Name == "Run" && len(call.Args) == 2 {
				if name, ok := call.Args[0].(*ast.BasicLit); ok {
					text, _ := strconv.Unquote(name.Value)
					names = append(names, text)
				}
			}
		}
		return true
	})
	return names
}

// withoutCode removes fenced blocks and code spans, in which brackets are not links.
func withoutCode(text string) string {
	text = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
}

// headings returns the anchors of a Markdown file.
func headings(text string) map[string]bool {
	anchors := make(map[string]bool)
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, match := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		heading := drop.ReplaceAllString(strings.ToLower(match[1]), "")
		anchors[strings.ReplaceAll(heading, " ", "-")] = true
	}
	return anchors
}
