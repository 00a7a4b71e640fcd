package r

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// FindOptions says where Find looks. The zero value means the surroundings of
// this process.
type FindOptions struct {
	// Path names one R and turns the search off: its front end ("/usr/bin/R"), a
	// directory (R's home or the one above it), a version that is installed ("4.3"), or
	// a command on PATH ("R-devel"). A relative path is relative to Dir, and "~/" is the
	// home directory. "" means search.
	Path string

	// Dir is the base of relative paths; "" means the working directory.
	Dir string

	// Env is the complete environment to search ("K=V"); the last of two equal names
	// counts. nil means that of this process.
	Env []string
}

// An Installation is an R that Find has chosen.
type Installation struct {
	Path    string // the front end, absolute
	Version string // from the files of the installation ("4.3.2"); "" when unknown

	// PathSource says in one line how it was found, and which earlier candidates could not be
	// used.
	PathSource string
}

// A Candidate is one place that Find looked at.
type Candidate = workers.Candidate

// Find chooses the R that a person would expect, without starting a process:
//
//  1. o.Path, and then nothing else
//  2. R_HOME; when that is not a usable R, nothing else either
//  3. CONDA_PREFIX, the active conda or pixi environment, when R is installed in it
//  4. R on PATH
//  5. on Windows the registry, then the usual directories: a program that was not started from a shell may have a
//     short PATH
//
// The candidates are all places where it looked, in order, also when there is an error.
func Find(o FindOptions) (Installation, []Candidate, error) {
	return findInstallation(o, systemInstallDirs)
}

// installDirs are the directories in which R is usually installed.
type installDirs struct {
	versionDirs   []string    // each holds one directory for each version
	prefixes      []string    // each holds one installation of R
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
		err = fmt.Errorf("r: cannot use %q: %s; name R itself, the directory it is installed in, or a version that is installed", o.Path, looked)
	case home != "":
		err = &workers.MissingError{Err: fmt.Errorf("r: cannot use R_HOME=%s: %s; correct R_HOME, or unset it to have R looked for", home, seen[0].Note)}
	default:
		err = &workers.MissingError{Err: fmt.Errorf("r: no R %s or newer found (%s); install it (%s), or name one by its path", minVersion, looked, howToInstall)}
	}
	return Installation{}, seen, err
}

// A finder is one search.
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
			c.Note = fmt.Sprintf("there is no %s in %s", frontEnds[0], path)
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
		found = []Candidate{{Source: source, Note: "PATH has no such command, and it is no file, directory or version"}}
	}
	return found
}

// installedCandidates lists the installations of a version, newest first. Other installations are
// passed over with their version, so that an error shows them.
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
	for _, name := range append([]string{"R-" + want.String()}, commandNames...) { // the former is a link that rig makes
		for _, path := range f.FindCommands(name) {
			add(frontEnd(path))
		}
	}
	for _, dir := range f.installDirs.versionDirs {
		entries, _ := os.ReadDir(f.AbsPath(dir)) // a directory that is not there has no R
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
	slices.SortStableFunc(fit, func(a, b numbered) int { return slices.Compare(b.version, a.version) })
	var found []Candidate
	for _, n := range append(fit, other...) {
		found = append(found, n.Candidate)
	}
	if len(found) == 0 {
		found = []Candidate{{Source: source, Note: "no R is installed in " + strings.Join(f.installDirs.versionDirs, ", ") + " or on PATH"}}
	}
	return found
}

// homeCandidates returns the R that R_HOME names. R sets it for the programs that it starts.
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

// systemCandidates looks in the usual directories; of several versions it takes the newest.
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
		found = []Candidate{{Source: "the usual places", Note: "no R in " + strings.Join(slices.Concat(f.installDirs.prefixes, f.installDirs.versionDirs), ", ")}}
	}
	return found
}

// installationCandidate returns the front end below root; without Path when there is none.
func installationCandidate(source, root string) Candidate {
	for _, name := range frontEnds {
		path := filepath.Join(root, filepath.FromSlash(name))
		if _, err := os.Lstat(path); err == nil {
			return Candidate{Source: source, Path: path}
		}
	}
	return Candidate{Source: source}
}

// inspectInstallation reads the version of the R at path, and says in note why it cannot be used. An
// unknown version is accepted, because boot.R checks it again.
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
		return "", "is a broken R: " + basePackageFile(home) + " does not tell its version"
	case slices.Compare(v, minVersion) < 0:
		return v.String(), fmt.Sprintf("is R %s, and the worker needs %s or newer", v, minVersion)
	}
	return v.String(), ""
}

// maxFrontEndBytes bounds the part of a front end that is read. R_HOME_DIR is set in the
// first lines.
const maxFrontEndBytes = 8 << 10

// homeOf returns the home of the R that the front end at path starts: the one that it
// sets, otherwise the directory that it is in. "" when unknown.
func homeOf(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	set := homeSetBy(real)
	bin := filepath.Dir(real)
	if filepath.Base(bin) == "x64" { // on Windows
		bin = filepath.Dir(bin)
	}
	homes := []string{filepath.Dir(bin)}
	if set != "" { // a front end in /usr/lib also starts an R in /usr/lib64, and the other way round
		homes = []string{set, strings.Replace(set, "/lib/", "/lib64/", 1), strings.Replace(set, "/lib64/", "/lib/", 1)}
	}
	for _, home := range homes {
		if _, err := os.Stat(basePackageFile(home)); err == nil {
			return home
		}
	}
	return set
}

// homeSetBy reads R_HOME_DIR=/usr/lib/R in a front end; "" when it sets none.
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

// versionIn reads the version of R's own package; nil when there is none.
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
