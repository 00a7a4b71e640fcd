package python

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

var requiresPython = text.Pattern(`(?m)^[ \t]*requires-python[ \t]*=[ \t]*(?:"([^"\n]*)"|'([^'\n]*)')`)

// maxMinor is the newest Python 3 whose name is looked for on PATH.
const maxMinor = 40

// requiredCandidates returns all installed Pythons that FindOptions.Requires allows, the newest
// first: those of pyenv and uv, and python3.N on PATH.
func (f *finder) requiredCandidates() []Candidate {
	var installed []discovery.Version
	roots := make(map[string]string) // by version
	for _, dir := range []string{f.pyenvVersionsDir(), f.uvPythonsDir()} {
		entries, _ := os.ReadDir(dir) // a missing directory has no Pythons
		for _, e := range entries {
			v := parseInstallName(e.Name())
			if v == nil || roots[v.String()] != "" || !specifiersAllow(f.requires, v) || !hasPython(filepath.Join(dir, e.Name())) {
				continue
			}
			installed, roots[v.String()] = append(installed, v), filepath.Join(dir, e.Name())
		}
	}
	sort.SliceStable(installed, func(i, j int) bool { return slices.Compare(installed[i], installed[j]) > 0 })
	var found []Candidate
	for _, v := range installed {
		found = append(found, environmentCandidate("installed Python "+v.String(), roots[v.String()]))
	}
	for minor := maxMinor; minor >= minMinor; minor-- {
		if !specifiersAllow(f.requires, discovery.Version{minMajor, minor}) {
			continue
		}
		found = append(found, f.commandCandidates(fmt.Sprintf("python%d.%d", minMajor, minor))...)
	}
	if len(found) == 0 {
		return []Candidate{{Source: "installed Pythons", Note: fmt.Sprintf("none is %s in %s, in %s and as python3.N on PATH", f.requires, f.pyenvVersionsDir(), f.uvPythonsDir())}}
	}
	return found
}

// specifier matches one condition of PEP 440.
var specifier = text.Pattern(`^(?:~=|===?|!=|<=?|>=?)\s*v?\d+(?:\.\d+)*(?:\.\*|[-._]?(?:a|b|c|rc|alpha|beta|pre|preview|post|dev)[-._]?\d*)*$`)

// CheckRequires returns an error unless the text is a list of conditions for a version, such as
// ">=3.11,<4", as PEP 440 defines it.
func CheckRequires(requires string) error {
	for one := range strings.SplitSeq(requires, ",") {
		one = strings.TrimSpace(one)
		if one == "" && strings.TrimSpace(requires) != "" { // PEP 440 allows a comma at the end
			continue
		}
		operand := strings.TrimLeft(one, "<>=!~ ")
		switch {
		case !specifier().MatchString(one):
			return fmt.Errorf("%q is not a condition for a version; write one such as >=3.11", one)
		case strings.HasSuffix(operand, ".*") && !strings.HasPrefix(one, "==") && !strings.HasPrefix(one, "!="),
			strings.HasPrefix(one, "~=") && !strings.Contains(operand, "."):
			return fmt.Errorf("%q is not a condition for a version: the operator does not go with %s", one, operand)
		}
	}
	return nil
}

// MeetsRequires reports whether a version such as "3.12.1" meets the conditions of
// FindOptions.Requires. A version that cannot be read counts as one that does.
func MeetsRequires(requires, version string) bool {
	return specifiersAllow(requires, parseRelease(version))
}

// releaseNumbers matches the numbers of a version, without a prefix or a suffix such as rc1.
var releaseNumbers = text.Pattern(`^v?(\d+(?:\.\d+){0,2})`)

// parseRelease returns the first three numbers of a version, or nil.
func parseRelease(text string) discovery.Version {
	found := releaseNumbers().FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	return discovery.ParseVersion(found[1])
}

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
		if found := requiresPython().FindSubmatch(text); found != nil {
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
		want := parseRelease(number)
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
		case "==", "===":
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
