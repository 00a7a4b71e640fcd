package r

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// FindOptions configure a search for an R installation. The zero value means the environment and working
// directory of this process.
type FindOptions struct {
	// Path names one R instead of a search: its front end ("/usr/bin/R"), a directory (R's
	// home or its parent), an installed version ("4.3"), or a command on PATH ("R-devel"). A
	// relative path is relative to Dir, and "~/" is the home directory. "" means search.
	Path string

	// Dir is the base of relative paths; "" means the working directory.
	Dir string

	// Env is the complete environment to search ("K=V"). If a name is repeated, the last value
	// counts. nil means this process's environment.
	Env []string
}

// An Installation describes the R that Find has chosen, and how it was found.
type Installation struct {
	Path    string // the front end, absolute
	Version string // from the files of the installation ("4.3.2"); "" when unknown

	// PathSource is one line about how it was found, and why earlier candidates could not be used.
	PathSource string
}

// A Candidate is a possible R that Find inspected, with a note if it cannot be used.
type Candidate = workers.Candidate

// Find chooses the R that a user would expect, without starting a process:
//
//  1. o.Path; if it is set, nothing else
//  2. R_HOME; if it is set, nothing else, even if that R cannot be used
//  3. CONDA_PREFIX, the active conda or pixi environment, if R is installed in it
//  4. R on PATH
//  5. the registry on Windows, then the default directories, because a program that was not
//     started from a shell may have a short PATH
//
// The result has all inspected candidates in order, even if there is an error.
func Find(o FindOptions) (Installation, []Candidate, error) {
	return findInstallation(o, systemInstallDirs)
}

// An installDirs lists the default directories in which R is installed on a system.
type installDirs struct {
	versionDirs   []string    // each has one directory for each version
	prefixes      []string    // each has one installation of R
	registryHomes []Candidate // the homes of R in the registry of Windows
}

func findInstallation(o FindOptions, known func(discovery.SearchContext) installDirs) (Installation, []Candidate, error) {
	s, err := discovery.NewSearchContext(o.Dir, o.Env)
	if err != nil {
		return Installation{}, nil, fmt.Errorf("r: %w", err)
	}
	f := &finder{s, o.Path, known(s)}
	looks := []func() []Candidate{f.condaCandidates, f.pathCandidates, f.systemCandidates}
	home := f.Env["R_HOME"]
	switch {
	case o.Path != "":
		looks = []func() []Candidate{f.namedCandidates}
	case home != "":
		looks = []func() []Candidate{f.homeCandidates}
	}
	seen, ok := discovery.ChooseCandidate(looks, inspectInstallation)
	if ok {
		c := seen[len(seen)-1]
		return Installation{Path: c.Path, Version: c.Version, PathSource: discovery.ChoiceReason(seen)}, seen, nil
	}
	looked := discovery.DescribeRejected(seen)
	switch {
	case o.Path != "":
		err = fmt.Errorf("r: cannot use %q: %s; name R itself, the directory it is installed in, or an installed version", o.Path, looked)
	case home != "":
		err = &workers.MissingError{Err: fmt.Errorf("r: cannot use R_HOME=%s: %s; correct R_HOME, or unset it to search for R", home, seen[0].Note)}
	default:
		err = &workers.MissingError{Err: fmt.Errorf("r: no R %s or newer found (%s); install it (%s), or name one by its path", minVersion, looked, howToInstall)}
	}
	return Installation{}, seen, err
}

// A finder is the state of one search for R.
type finder struct {
	discovery.SearchContext
	path        string // FindOptions.Path
	installDirs installDirs
}

// namedCandidates returns the candidates for FindOptions.Path.
func (f *finder) namedCandidates() []Candidate {
	source := "named " + f.path
	path, isPath := f.AbsPath(f.path), discovery.IsPath(f.path)
	info, err := os.Stat(path)
	isDir := err == nil && info.IsDir()
	if isPath && !isDir {
		return []Candidate{{Source: source, Path: frontEnd(path)}}
	}
	if c := installationCandidate(source, path); isDir && (isPath || c.Path != "") {
		if c.Path == "" {
			c.Note = fmt.Sprintf("%[2]s has no %[1]s", frontEnds[0], path)
		}
		return []Candidate{c}
	}
	var found []Candidate
	for _, path := range f.FindCommands(f.path) {
		found = append(found, Candidate{Source: source + " on PATH", Path: frontEnd(path)})
	}
	if want := discovery.ParseVersion(f.path); want != nil {
		found = append(found, f.installedCandidates(source, want)...)
	}
	if len(found) == 0 {
		found = []Candidate{{Source: source, Note: "it is not a command on PATH, a file, a directory or a version"}}
	}
	return found
}

// installedCandidates returns the installations of a version, newest first. Other installations are
// rejected with their version, so that an error shows them.
func (f *finder) installedCandidates(source string, want discovery.Version) []Candidate {
	type numbered struct {
		Candidate
		version discovery.Version
	}
	var fit, other []numbered
	homes := map[string]bool{}
	add := func(path string) {
		home := homeOf(path)
		v := versionIn(home)
		if homes[home] || v == nil {
			return
		}
		homes[home] = true
		n := numbered{Candidate{Source: source + " at " + path, Path: path}, v}
		if v.StartsWith(want) {
			fit = append(fit, n)
		} else {
			n.Note = "is R " + v.String()
			other = append(other, n)
		}
	}
	for _, name := range append([]string{"R-" + want.String()}, commandNames...) { // rig makes the first link
		for _, path := range f.FindCommands(name) {
			add(frontEnd(path))
		}
	}
	for _, dir := range f.installDirs.versionDirs {
		entries, _ := os.ReadDir(f.AbsPath(dir)) // a missing directory has no R
		for _, e := range entries {
			if c := installationCandidate("", filepath.Join(f.AbsPath(dir), e.Name())); c.Path != "" {
				add(c.Path)
			}
		}
	}
	prefixes := f.installDirs.prefixes
	for _, c := range f.installDirs.registryHomes {
		prefixes = append(prefixes, c.Path)
	}
	for _, prefix := range prefixes {
		if c := installationCandidate("", prefix); c.Path != "" {
			add(c.Path)
		}
	}
	sort.SliceStable(fit, func(i, j int) bool { return slices.Compare(fit[i].version, fit[j].version) > 0 })
	var found []Candidate
	for _, n := range append(fit, other...) {
		found = append(found, n.Candidate)
	}
	if len(found) == 0 {
		found = []Candidate{{Source: source, Note: "no R is installed in " + strings.Join(f.installDirs.versionDirs, ", ") + " or on PATH"}}
	}
	return found
}

// homeCandidates returns the R that R_HOME names. R sets R_HOME for the programs that it starts.
func (f *finder) homeCandidates() []Candidate {
	path := f.AbsPath(f.Env["R_HOME"])
	if c := installationCandidate("R_HOME", path); c.Path != "" {
		return []Candidate{c}
	}
	return []Candidate{{Source: "R_HOME", Path: filepath.Join(path, filepath.FromSlash(frontEnds[0]))}}
}

func (f *finder) condaCandidates() []Candidate {
	prefix := f.Env["CONDA_PREFIX"]
	if prefix == "" {
		return []Candidate{{Source: "CONDA_PREFIX", Note: "not set"}}
	}
	c := installationCandidate("active CONDA_PREFIX", f.AbsPath(prefix))
	if c.Path == "" {
		c.Note = "has no R in it"
	}
	return []Candidate{c}
}

func (f *finder) pathCandidates() []Candidate {
	var found []Candidate
	for _, name := range commandNames {
		for _, path := range f.FindCommands(name) {
			found = append(found, Candidate{Source: "R on PATH", Path: frontEnd(path)})
		}
	}
	if len(found) == 0 {
		found = []Candidate{{Source: "PATH", Note: f.DescribeMissing("R")}}
	}
	return found
}

// systemCandidates searches the default directories. Of several versions it takes the newest.
func (f *finder) systemCandidates() []Candidate {
	var found []Candidate
	for _, prefix := range f.installDirs.prefixes {
		if c := installationCandidate("R in "+prefix, prefix); c.Path != "" {
			found = append(found, c)
		}
	}
	for _, home := range f.installDirs.registryHomes {
		if c := installationCandidate(home.Source, home.Path); c.Path != "" {
			found = append(found, c)
		}
	}
	for _, c := range f.installedCandidates("installed", nil) {
		if c.Path != "" {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		found = []Candidate{{Source: "the default directories", Note: "no R in " + strings.Join(slices.Concat(f.installDirs.prefixes, f.installDirs.versionDirs), ", ")}}
	}
	return found
}

// installationCandidate returns the front end below root. Path is empty without one.
func installationCandidate(source, root string) Candidate {
	for _, name := range frontEnds {
		path := filepath.Join(root, filepath.FromSlash(name))
		if _, err := os.Lstat(path); err == nil {
			return Candidate{Source: source, Path: path}
		}
	}
	return Candidate{Source: source}
}

// inspectInstallation returns the version of the R at path, or a note why it cannot be used. An unknown
// version is accepted, because boot.R checks it again.
func inspectInstallation(path string) (version, note string) {
	if note := discovery.ExecutableProblem(path); note != "" {
		return "", note
	}
	if note := frontEndProblem(path); note != "" {
		return "", note
	}
	home := homeOf(path)
	v := versionIn(home)
	switch {
	case home == "":
		return "", ""
	case v == nil:
		return "", "is a broken R: " + basePackageFile(home) + " does not state its version"
	case slices.Compare(v, minVersion) < 0:
		return v.String(), fmt.Sprintf("is R %s; the worker needs %s or newer", v, minVersion)
	}
	return v.String(), ""
}

// maxFrontEndBytes bounds the part of a front end that is read. R_HOME_DIR is set in the
// first lines.
const maxFrontEndBytes = 8 << 10

// homeOf returns the home of the R that the front end at path starts: the home that it sets, otherwise
// its own directory. "" means unknown.
func homeOf(path string) string {
	real, err := paths.Real(path)
	if err != nil {
		return ""
	}
	set := homeSetBy(real)
	bin := filepath.Dir(real)
	if filepath.Base(bin) == "x64" { // on Windows
		bin = filepath.Dir(bin)
	}
	homes := []string{filepath.Dir(bin)}
	if set != "" { // a front end in /usr/lib also starts an R in /usr/lib64, and vice versa
		homes = []string{set, strings.Replace(set, "/lib/", "/lib64/", 1), strings.Replace(set, "/lib64/", "/lib/", 1)}
	}
	for _, home := range homes {
		if _, err := os.Stat(basePackageFile(home)); err == nil {
			return home
		}
	}
	return set
}

// homeSetBy returns the value of R_HOME_DIR=/usr/lib/R in a front end, or "".
func homeSetBy(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(io.LimitReader(file, maxFrontEndBytes)); lines.Scan(); {
		if home, ok := strings.CutPrefix(lines.Text(), "R_HOME_DIR="); ok {
			if home = strings.Trim(home, `"'`); filepath.IsAbs(home) {
				return home
			}
		}
	}
	return ""
}

func basePackageFile(home string) string {
	return filepath.Join(home, "library", "base", "DESCRIPTION")
}

// versionIn returns the version of R's base package below a home, or nil.
func versionIn(home string) discovery.Version {
	data, err := os.ReadFile(basePackageFile(home))
	if home == "" || err != nil {
		return nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "Version:"); ok {
			return discovery.ParseVersion(strings.TrimSpace(text))
		}
	}
	return nil
}
