// Package installsource detects how this program was installed, from the path of its file.
//
// The package starts no goroutines.
package installsource

import (
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/toolenv"
)

// Package is the name of the program at PyPI and npm, and of the Debian and RPM packages.
const Package = "turnstone-repl"

// A Source describes an installation method, such as pip or a Debian package.
type Source struct {
	Name    string   // "pip", "a Debian package"
	Upgrade string   // the command, or the address, for a newer version
	Runner  []string // the command that starts the program if its own file is temporary
}

// Find returns the source of a program file. If the file is a symbolic link, its target counts.
func Find(exe string) Source {
	exe = paths.RealOrSame(exe)
	for _, look := range []func(path string, parts []string) (Source, bool){nodeSource, pythonSource, systemSource, goSource} {
		if o, ok := look(exe, strings.Split(filepath.ToSlash(exe), "/")); ok {
			return o
		}
	}
	return Source{Name: "an archive", Upgrade: "take the newest archive from https://github.com/turnstone-repl/turnstone/releases and replace " + exe + " by its repl"}
}

// nodeSource recognises npm by the directories that it makes. npx stores packages in its cache,
// _npx.
func nodeSource(_ string, parts []string) (Source, bool) {
	i := slices.Index(parts, "node_modules")
	switch {
	case i < 0 || !slices.Contains(parts[i:], "@"+Package):
		return Source{}, false
	case slices.Contains(parts, "_npx"):
		return Source{Name: "npx", Upgrade: "npx -y " + Package + "@latest", Runner: []string{"npx", "-y", Package}}, true
	case i > 0 && (parts[i-1] == "lib" || parts[i-1] == "npm"): // the global directory, on Unix and on Windows
		return Source{Name: "npm", Upgrade: "npm install -g " + Package + "@latest"}, true
	}
	return Source{Name: "npm", Upgrade: "npm install " + Package + "@latest"}, true
}

// pythonSource recognises environments by pyvenv.cfg, including those made for a single program.
func pythonSource(exe string, _ []string) (Source, bool) {
	root := filepath.Dir(filepath.Dir(exe))
	switch maker := toolenv.InstallerName(root); {
	case maker == "uvx":
		return Source{Name: maker, Upgrade: "uvx " + Package + "@latest", Runner: []string{"uvx", Package}}, true
	case maker != "":
		return Source{Name: maker, Upgrade: maker + " upgrade " + Package}, true
	case paths.Exists(filepath.Join(root, "pyvenv.cfg")) || hasDistribution(root):
		python := filepath.Join(filepath.Dir(exe), "python")
		return Source{Name: "pip", Upgrade: python + " -m pip install --upgrade " + Package}, true
	}
	return Source{}, false
}

// hasDistribution reports whether pip has installed the package below root, the prefix of a Python.
func hasDistribution(root string) bool {
	for _, lib := range []string{"lib/python3*", "local/lib/python3*", "Lib"} {
		found, err := filepath.Glob(filepath.Join(root, lib, "*-packages", strings.ReplaceAll(Package, "-", "_")+"-*.dist-info"))
		if err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// systemSource recognises the package managers of a system.
func systemSource(exe string, parts []string) (Source, bool) {
	switch {
	case slices.Contains(parts, "Cellar"):
		return Source{Name: "Homebrew", Upgrade: "brew upgrade " + Package}, true
	case slices.Contains(parts, "scoop"):
		return Source{Name: "Scoop", Upgrade: "scoop update " + Package}, true
	case slices.Contains(parts, "WinGet"):
		return Source{Name: "winget", Upgrade: "winget upgrade turnstone.repl"}, true
	case exe == "/usr/bin/repl" && paths.Exists("/var/lib/dpkg/info/"+Package+".list"):
		return Source{Name: "a Debian package", Upgrade: "sudo apt-get install ./" + Package + "_VERSION_ARCH.deb, the newest from https://github.com/turnstone-repl/turnstone/releases"}, true
	case exe == "/usr/bin/repl" && (paths.Exists("/usr/lib/sysimage/rpm") || paths.Exists("/var/lib/rpm")):
		return Source{Name: "an RPM package", Upgrade: "sudo rpm -U " + Package + "-VERSION.ARCH.rpm, the newest from https://github.com/turnstone-repl/turnstone/releases"}, true
	}
	return Source{}, false
}

// goSource recognises two kinds of programs by their build information: go install builds one from
// a module, and go build builds one from a clone.
func goSource(exe string, _ []string) (Source, bool) {
	info, ok := debug.ReadBuildInfo()
	switch {
	case !ok:
		return Source{}, false
	case info.Main.Sum != "": // go build in a clone has no checksum of the module
		return Source{Name: "go install", Upgrade: "go install " + info.Main.Path + "/cmd/repl@latest"}, true
	case !isReleased(info.Main.Version):
		return Source{Name: "go build", Upgrade: "git pull && go build -o " + exe + " ./cmd/repl, in the clone"}, true
	}
	return Source{}, false
}

// pseudoVersion matches the end of a version that the go command generates for an untagged commit.
var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}$`)

// isReleased reports whether a version is the name of a tag.
func isReleased(version string) bool {
	return strings.HasPrefix(version, "v") && !strings.Contains(version, "+dirty") && !pseudoVersion.MatchString(version)
}
