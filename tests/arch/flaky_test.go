package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// flakyDays is how long a test may be listed as flaky. scripts/again forgets a failure after the same
// time.
const flakyDays = 14

// flakyFaults returns the lines of .ci/flaky that break its rules, with the reasons.
func flakyFaults(tr *tree, text string, now time.Time) (faults []string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		if fault := flakyFault(tr, strings.Fields(line), now); fault != "" {
			faults = append(faults, fmt.Sprintf(".ci/flaky:%d: %s", number, fault))
		}
	}
	return faults
}

func flakyFault(tr *tree, words []string, now time.Time) string {
	if len(words) < 4 {
		return "want a package, a test, a date and an owner"
	}
	name, ours := strings.CutPrefix(words[0], module+"/")
	i := slices.IndexFunc(tr.pkgs, func(p *pkg) bool { return ours && p.name == name })
	if i < 0 {
		return "there is no package " + words[0]
	}
	if !tr.pkgs[i].tests(words[1]) {
		return words[0] + " has no test " + words[1]
	}
	date, err := time.Parse(time.DateOnly, words[2])
	switch {
	case err != nil:
		return "want a date such as 2006-01-02: " + words[2]
	case date.After(now.AddDate(0, 0, 1)): // the author's time zone may be a day ahead
		return words[2] + " is yet to come"
	case date.Before(now.AddDate(0, 0, -flakyDays-1)):
		return fmt.Sprintf("%s is flaky for more than %d days: find its cause", words[1], flakyDays)
	}
	return ""
}

// tests reports whether the package has this test or example, at the top level.
func (p *pkg) tests(name string) bool {
	if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Example") {
		return false
	}
	for _, f := range p.files {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}

func TestFlaky(t *testing.T) {
	t.Parallel()
	tr := load(t)
	now := time.Now()
	t.Run("each line is of a test, by somebody, and new", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile(filepath.Join(tr.root, ".ci", "flaky"))
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range flakyFaults(tr, string(text), now) {
			t.Error(fault)
		}
	})
	t.Run("a line that breaks a rule is found", func(t *testing.T) {
		t.Parallel()
		ago := func(days int) string { return now.AddDate(0, 0, -days).Format(time.DateOnly) }
		const here = module + "/tests/arch"
		for line, want := range map[string]string{
			here + " TestFlaky " + ago(0) + " a b":            "",
			here + " TestFlaky " + ago(14) + " a":             "",
			"# " + here:                                       "",
			here + " TestFlaky " + ago(0):                     "want a package, a test, a date and an owner",
			module + "/tests/none TestFlaky " + ago(0) + " a": "there is no package " + module + "/tests/none",
			"tests/arch TestFlaky " + ago(0) + " a":           "there is no package tests/arch",
			here + " TestNone " + ago(0) + " a":               here + " has no test TestNone",
			here + " flakyFaults " + ago(0) + " a":            here + " has no test flakyFaults",
			here + " TestFlaky yesterday a":                   "want a date such as 2006-01-02: yesterday",
			here + " TestFlaky " + ago(-3) + " a":             ago(-3) + " is yet to come",
			here + " TestFlaky " + ago(16) + " a":             "TestFlaky is flaky for more than 14 days: find its cause",
		} {
			if want != "" {
				want = ".ci/flaky:2: " + want
			}
			if got := strings.Join(flakyFaults(tr, "\n"+line+"\n", now), "; "); got != want {
				t.Errorf("%s: got %q, want %q", line, got, want)
			}
		}
	})
}
