package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// skipReasonBytes is the length at which .ci/run cuts the reasons of .ci/bare-skips.
const skipReasonBytes = 60

// minReasonLetters is the minimum length of the text that a reason and the source must share. Shorter
// texts match by chance.
const minReasonLetters = 8

// formatVerb matches what fmt replaces in a text.
var formatVerb = regexp.MustCompile(`%[-+# 0-9.*]*[a-zA-Z]`)

// A skipChecker checks that each line of .ci/bare-skips names an existing test and reason. Otherwise the
// line of a renamed test would remain, and would allow a later test of that name to be skipped.
type skipChecker struct {
	tree    *tree
	texts   []string                 // all strings of the tree
	reasons map[string]bool          // the checked reasons, and whether each matches a text
	names   map[string]*subTestNames // by package
}

func newSkipChecker(tr *tree) *skipChecker {
	texts := tr.literals(func(_ *pkg, f *file) bool { return f.name != "skips_test.go" })
	slices.Sort(texts)
	return &skipChecker{tree: tr, texts: slices.Compact(texts), reasons: make(map[string]bool), names: make(map[string]*subTestNames)}
}

func (c *skipChecker) faults(text string) (faults []string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "#") {
			continue
		}
		if fault := c.fault(line); fault != "" {
			faults = append(faults, fmt.Sprintf(".ci/bare-skips:%d: %s", number, fault))
		}
	}
	return faults
}

func (c *skipChecker) fault(line string) string {
	words := strings.SplitN(line, " ", 4)
	if len(words) < 4 {
		return "want a case, a package, a test and a reason"
	}
	name, test, reason := words[1], words[2], words[3]
	i := slices.IndexFunc(c.tree.pkgs, func(p *pkg) bool { return p.name == name })
	if i < 0 {
		return "there is no package " + name
	}
	if c.names[name] == nil {
		c.names[name] = c.tree.subTestNames(c.tree.pkgs[i])
	}
	top, sub, _ := strings.Cut(test, "/")
	if !c.tree.pkgs[i].tests(top) {
		if c.names[name].programs(top) {
			return "" // a test in a program that a test writes and runs
		}
		return name + " has no test " + top
	}
	if sub != "" && !c.names[name].has(sub) {
		return name + " has no sub-test " + sub
	}
	if _, known := c.reasons[reason]; !known {
		c.reasons[reason] = slices.ContainsFunc(c.texts, func(text string) bool { return isReason(text, reason) })
	}
	if !c.reasons[reason] {
		return "no text of the tree is the reason " + strconv.Quote(reason)
	}
	return ""
}

// literals returns the strings in the chosen files. A concatenation counts as one string, in which %v
// stands for unknown parts.
func (tr *tree) literals(choose func(*pkg, *file) bool) (found []string) {
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			if !choose(p, f) {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ImportSpec:
					return false
				case *ast.BasicLit, *ast.BinaryExpr:
					if text := textOf(n.(ast.Expr)); text != "" && text != "%v" {
						found = append(found, text)
					}
				}
				return true
			})
		}
	}
	return found
}

func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if left, right := textOf(e.X), textOf(e.Y); e.Op == token.ADD && (left != "%v" || right != "%v") {
			return left + right
		}
	}
	return "%v"
}

// subTestNames are the strings that may name a sub-test of a package, as go test writes them: those of its
// own files and of the packages that it imports, such as a suite of checks.
type subTestNames struct {
	whole    map[string]bool
	patterns []*regexp.Regexp // of names with unknown parts
}

func (tr *tree) subTestNames(p *pkg) *subTestNames {
	from := map[string]bool{p.name: true}
	for _, f := range p.files {
		for _, spec := range f.ast.Imports {
			if name, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); ours {
				from[name] = true
			}
		}
	}
	names := &subTestNames{whole: make(map[string]bool)}
	for _, text := range tr.literals(func(p *pkg, _ *file) bool { return from[p.name] }) {
		name := strings.ReplaceAll(text, " ", "_")
		names.whole[name] = true
		if strings.ContainsAny(text, "\n\r") || !utf8.ValidString(text) {
			continue // it cannot be a name
		}
		if parts := formatVerb.Split(text, -1); len(parts) > 1 && len(strings.Join(parts, "")) >= minNameBytes {
			for i := range parts {
				parts[i] = regexp.QuoteMeta(strings.ReplaceAll(parts[i], " ", "_"))
			}
			names.patterns = append(names.patterns, regexp.MustCompile("^"+strings.Join(parts, "[^/]+")+"$"))
		}
	}
	others, _ := filepath.Glob(filepath.Join(p.dir, "*")) // a case may be a function in another language
	for _, path := range others {
		if text, err := os.ReadFile(path); err == nil && filepath.Ext(path) != ".go" {
			for _, word := range identifier.FindAllString(string(text), -1) {
				names.whole[word] = true
			}
		}
	}
	return names
}

// minNameBytes is the minimum length of the known part of a name with unknown parts.
const minNameBytes = 5

// has reports whether a path such as "answers/at_once#01" consists of names, which may contain slashes.
func (s *subTestNames) has(path string) bool {
	if s.isName(path) {
		return true
	}
	for i, c := range path {
		if c == '/' && s.isName(path[:i]) && s.has(path[i+1:]) {
			return true
		}
	}
	return false
}

func (s *subTestNames) isName(name string) bool {
	name = repeated.ReplaceAllString(name, "")
	if s.whole[name] || slices.ContainsFunc(s.patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) }) {
		return true
	}
	for i, c := range name { // of a table with several keys: one + " " + other
		if c == '_' && s.whole[name[:i]] && s.isName(name[i+1:]) {
			return true
		}
	}
	return false
}

// identifier matches a name of most languages.
var identifier = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// repeated matches the number that go test adds to a repeated name.
var repeated = regexp.MustCompile(`#\d+$`)

// programs reports whether a string contains a test function with that name.
func (s *subTestNames) programs(test string) bool {
	for text := range s.whole {
		if strings.Contains(text, "func_"+test+"(") {
			return true
		}
	}
	return false
}

// isReason reports whether a reason, which may be cut, begins with a text of the tree. Other text may
// follow, because a reason often consists of several texts.
func isReason(text, reason string) bool {
	cut := len(reason) >= skipReasonBytes-1 // a space at the end is lost
	letters := 0
	for i, part := range formatVerb.Split(text, -1) {
		at := 0
		if i > 0 {
			at = strings.Index(reason, part)
		} else if !strings.HasPrefix(reason, part) {
			at = -1
		}
		if at < 0 {
			if !cut || i == 0 && !strings.HasPrefix(part, reason) {
				return false
			}
			if i == 0 {
				letters += len(reason)
			}
			break
		}
		letters += len(part)
		reason = reason[at+len(part):]
	}
	return letters >= minReasonLetters
}

// allowedSkips returns the expressions for reasons that .ci/run allows.
func allowedSkips(script string) (expressions []string) {
	var all strings.Builder
	for _, match := range regexp.MustCompile(`(?m)^allowed_skips\+?='(.*)'$`).FindAllStringSubmatch(script, -1) {
		all.WriteString(match[1])
	}
	depth, from := 0, 0
	text := all.String()
	for i, c := range text + "|" {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			expressions = append(expressions, text[from:i])
			from = i + 1
		}
	}
	return expressions
}

func TestSkips(t *testing.T) {
	t.Parallel()
	tr := load(t)
	read := func(t *testing.T, name string) string {
		text, err := os.ReadFile(filepath.Join(tr.root, ".ci", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	t.Run("each line is of a test and has a reason of the tree", func(t *testing.T) {
		t.Parallel()
		for _, fault := range newSkipChecker(tr).faults(read(t, "bare-skips")) {
			t.Error(fault)
		}
	})
	t.Run("each allowed reason is one of a test", func(t *testing.T) {
		t.Parallel()
		texts := tr.literals(func(p *pkg, f *file) bool { return f.test && f.name != "skips_test.go" || isTestCode(p.name) })
		allowed := allowedSkips(read(t, "run"))
		if len(allowed) < 2 {
			t.Fatal("found no allowed_skips in .ci/run")
		}
		for _, expression := range allowed {
			pattern := regexp.MustCompile(expression)
			if !slices.ContainsFunc(texts, pattern.MatchString) {
				t.Errorf(".ci/run allows %q, which no test says", expression)
			}
		}
	})
	t.Run("a line that breaks a rule is found", func(t *testing.T) {
		t.Parallel()
		checker := newSkipChecker(tr)
		const reason = "this is a copy of the tree without its git repository"
		for line, want := range map[string]string{
			"closed tests/arch TestSkips " + reason:                                     "",
			"closed tests/arch TestSkips/a_line_that_breaks_a_rule_is_found " + reason:  "",
			"closed tests/arch TestSkips":                                               "want a case, a package, a test and a reason",
			"closed tests/nowhere TestSkips " + reason:                                  "there is no package tests/nowhere",
			"closed tests/arch TestRenamed " + reason:                                   "tests/arch has no test TestRenamed",
			"closed tests/arch TestSkips/no" + "thing_of_the_kind " + reason:            "tests/arch has no sub-test no" + "thing_of_the_kind",
			"closed tests/arch TestSkips a reason" + " nobody would give, or even know": `no text of the tree is the reason "a reason` + ` nobody would give, or even know"`,
		} {
			if want != "" {
				want = ".ci/bare-skips:1: " + want
			}
			if got := strings.Join(checker.faults(line+"\n"), "; "); got != want {
				t.Errorf("%s: got %q, want %q", line, got, want)
			}
		}
	})
}
