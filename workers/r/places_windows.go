package r

import (
	"debug/pe"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/windows/registry"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

const (
	shimName     = "turnstone.dll" // R derives names from it
	canCompile   = false
	utf8Locale   = "" // R uses UTF-8 by default
	howToInstall = "https://cran.r-project.org/bin/windows/base, or winget install RProject.R"
)

// minVersion is the oldest R whose character set is UTF-8.
var minVersion = discovery.Version{4, 2}

// consoleArgs make R interactive in any environment, and make it read only its given input.
var consoleArgs = []string{"--ess"}

// frontEnds are the paths of Rterm below R's home and in a conda environment. The last two
// are for an R for ARM.
var frontEnds = []string{`bin\x64\Rterm.exe`, `lib\R\bin\x64\Rterm.exe`, `bin\Rterm.exe`, `lib\R\bin\Rterm.exe`}

// commandNames are R's names on PATH.
var commandNames = []string{"Rterm", "R", "Rscript"}

// frontEnd returns the Rterm next to a program of R. Other programs start Rterm, or open a
// window.
func frontEnd(path string) string {
	names := []string{"r.exe", "rscript.exe", "rgui.exe", "rcmd.exe", "rterm.exe", "r", "rscript", "rgui", "rcmd", "rterm"}
	if !slices.Contains(names, strings.ToLower(filepath.Base(path))) {
		return path
	}
	for _, name := range []string{"Rterm.exe", `x64\Rterm.exe`} {
		if beside := filepath.Join(filepath.Dir(path), name); discovery.ExecutableProblem(beside) == "" {
			return beside
		}
	}
	return path
}

// frontEndProblem returns why a program is not R's front end, or "" if it may be.
func frontEndProblem(path string) string {
	if !strings.EqualFold(filepath.Base(path), "Rterm.exe") {
		return path + " is not Rterm.exe, and none is next to it or in x64"
	}
	if file, err := pe.Open(path); err == nil {
		defer file.Close()
		if file.Machine != pe.IMAGE_FILE_MACHINE_AMD64 {
			return path + " is not for x64; install R for x64, which Windows on ARM runs as well"
		}
	}
	return ""
}

// systemInstallDirs returns the entries of CRAN's installer in the registry, and the
// directories of CRAN's installer and rig.
func systemInstallDirs(s discovery.SearchContext) installDirs {
	var p installDirs
	for _, root := range []struct {
		name string
		key  registry.Key
		view uint32
	}{{"HKCU", registry.CURRENT_USER, 0}, {"HKLM", registry.LOCAL_MACHINE, registry.WOW64_64KEY}} {
		for _, key := range readRegistryHomes(root.key, registryKey, root.view) {
			p.registryHomes = append(p.registryHomes, Candidate{Source: "R in the registry (" + root.name + ")", Path: key})
		}
	}
	for _, dir := range []string{joinIfSet(s.Env["PROGRAMFILES"], "R"), joinIfSet(s.Env["LOCALAPPDATA"], `Programs\R`)} {
		if dir != "" {
			p.versionDirs = append(p.versionDirs, dir)
		}
	}
	return p
}

func joinIfSet(root, below string) string {
	if root == "" {
		return ""
	}
	return filepath.Join(root, below)
}

// registryKey is the registry key of R's installer.
const registryKey = `Software\R-core\R`

// readRegistryHomes returns the homes of R below one root, the current one first.
func readRegistryHomes(root registry.Key, name string, view uint32) []string {
	key, err := registry.OpenKey(root, name, registry.READ|view)
	if err != nil {
		return nil // no such key
	}
	defer key.Close()
	versions, _ := key.ReadSubKeyNames(-1)
	var homes []string
	for _, below := range append([]string{name}, sortedKeyPaths(name, versions)...) {
		key, err := registry.OpenKey(root, below, registry.QUERY_VALUE|view)
		if err != nil {
			continue
		}
		home, _, err := key.GetStringValue("InstallPath")
		key.Close()
		if home = filepath.Clean(home); err == nil && filepath.IsAbs(home) && !slices.Contains(homes, home) {
			homes = append(homes, home)
		}
	}
	return homes
}

// sortedKeyPaths returns the paths of these keys, newest version first.
func sortedKeyPaths(above string, names []string) []string {
	slices.SortFunc(names, func(a, b string) int {
		return slices.Compare(discovery.ParseVersion(b), discovery.ParseVersion(a))
	})
	var all []string
	for _, name := range names {
		all = append(all, above+`\`+name)
	}
	return all
}
