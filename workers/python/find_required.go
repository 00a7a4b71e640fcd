package python

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

var requiresPython = regexp.MustCompile(`(?m)^[ \t]*requires-python[ \t]*=[ \t]*(?:"([^"\n]*)"|'([^'\n]*)')`)

// maxProjectFile bounds how much of a pyproject.toml is read.
const maxProjectFile = 1 << 20

// requirementProblem returns one line if the project does not allow a version, or "" if it does or if that
// is unknown.
func (f *finder) requirementProblem(v discovery.Version) string {
	for _, dir := range f.searchDirs() {
		path := filepath.Join(dir, "pyproject.toml")
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxProjectFile {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if found := requiresPython.FindSubmatch(text); found != nil {
			if wanted := string(found[1]) + string(found[2]); !specifiersAllow(wanted, v) {
				return fmt.Sprintf("not Python %s, which %s requires; create an environment with that version, as uv sync does", strings.TrimSpace(wanted), path)
			}
			return ""
		}
	}
	return ""
}

// specifiersAllow reports whether a version meets the specifiers of a project (PEP 440). A specifier that
// cannot be parsed, or that depends on unknown numbers, counts as met.
func specifiersAllow(specifiers string, v discovery.Version) bool {
	for one := range strings.SplitSeq(specifiers, ",") {
		one = strings.TrimSpace(one)
		number := strings.TrimLeft(one, "<>=!~ ")
		want := discovery.ParseVersion(strings.TrimSuffix(number, ".*"))
		if v == nil || want == nil {
			continue
		}
		starts, order := v.StartsWith(want), compareVersions(v, want)
		exact := len(v) > len(want) && !strings.HasSuffix(number, ".*") // 3.12 is 3.12.0
		var met bool
		switch operator := strings.TrimSpace(strings.TrimSuffix(one, number)); operator {
		case ">=":
			met = order >= 0
		case ">":
			met = order > 0 || order == 0 && len(v) < len(want)
		case "<=":
			met = order <= 0
		case "<":
			met = order < 0 || order == 0 && len(v) < len(want)
		case "==":
			met = starts && !(exact && compareVersions(v, append(want, 0)) > 0) || order == 0 && len(v) < len(want)
		case "!=":
			met = !starts || exact && compareVersions(v, append(want, 0)) > 0
		case "~=":
			met = order >= 0 && (len(want) < 2 || v.StartsWith(want[:len(want)-1]))
		default:
			met = true
		}
		if !met {
			return false
		}
	}
	return true
}

// compareVersions compares the numbers that both versions have. Numbers that only v has count as 0 in want.
func compareVersions(v, want discovery.Version) int {
	for i, n := range v {
		w := 0
		if i < len(want) {
			w = want[i]
		}
		if n != w {
			return n - w
		}
	}
	return 0
}
