// Package installsource detects how this program was installed, from the path of its file, and how a
// newer version is installed in the same way.
//
// The program never replaces its own file. A package manager records the files that it has
// installed: a file that changes without it is put back by its next upgrade or fails its check. An
// archive has no manager, but its file may belong to one that is not known here, may need root, and
// would have to be downloaded and verified. So there are only instructions for it.
//
// The package starts no goroutines.
package installsource

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/internal/toolenv"
)

// Package is the name of the program at PyPI and npm, and of the Debian and RPM packages.
const Package = "turnstone-repl"

const releases = "https://github.com/turnstone-repl/turnstone/releases"

// A Source describes an installation method, such as pip or a Debian package.
type Source struct {
	Name     string     // "pip", "a Debian package"
	Commands [][]string // the commands that install the newest version, in this order; none if only the user can do it
	Advice   string     // what the user does if there are no commands: a clause, or ""
	Runner   []string   // the command that starts the program if its own file is temporary

	// FileCommand installs a file of a release, whose path follows it. It is nil if the source takes no file.
	FileCommand []string
}

// UpgradeText returns the commands as the user would type them, or the advice.
func (s Source) UpgradeText() string {
	if len(s.Commands) == 0 {
		return s.Advice
	}
	return CommandText(s.Commands)
}

// CommandText returns commands as one line for a shell.
func CommandText(commands [][]string) string {
	var lines []string
	for _, words := range commands {
		var quoted []string
		for _, word := range words {
			quoted = append(quoted, shellword.Quote(word))
		}
		lines = append(lines, strings.Join(quoted, " "))
	}
	return strings.Join(lines, " && ")
}

// Find returns the source of a program file. If the file is a symbolic link, its target counts.
func Find(exe string) Source {
	exe = paths.RealOrSame(exe)
	for _, look := range []func(path string, parts []string) (Source, bool){nodeSource, pythonSource, systemSource, goSource} {
		if o, ok := look(exe, strings.Split(filepath.ToSlash(exe), "/")); ok {
			return o
		}
	}
	return Source{Name: "an archive", Advice: "unpack the newest archive of " + releases + ", and replace " + exe + " by its repl"}
}

// nodeSource recognises the package managers of Node.js by the directories that they make. npx and
// others that start a package once store it in a cache.
func nodeSource(exe string, parts []string) (Source, bool) {
	i := slices.Index(parts, "node_modules")
	if i < 0 || !slices.Contains(parts[i:], "@"+Package) {
		return Source{}, false
	}
	newest := Package + "@latest"
	has := func(part string) bool { return slices.Contains(parts[:i], part) }
	switch {
	case has("_npx"):
		return cachedSource("npx", "npx", "-y"), true
	case slices.ContainsFunc(parts[:i], func(p string) bool { return strings.HasPrefix(p, "bunx-") }):
		return cachedSource("bunx", "bunx"), true
	case has("dlx") && has("pnpm"):
		return cachedSource("pnpm dlx", "pnpm", "dlx"), true
	case has(".bun") && has("global"):
		return Source{Name: "bun", Commands: [][]string{{"bun", "add", "--global", newest}}}, true
	case has("pnpm") && has("global"):
		return Source{Name: "pnpm", Commands: [][]string{{"pnpm", "add", "--global", newest}}}, true
	case has("yarn") && has("global"):
		return Source{Name: "yarn", Commands: [][]string{{"yarn", "global", "add", newest}}}, true
	}
	root := exe[:len(strings.Join(parts[:i], "/"))] // the directory of node_modules
	prefix := ""
	if base := filepath.Base(root); base == "lib" { // the global directory on Unix
		prefix = filepath.Dir(root)
	} else if base == "npm" { // and on Windows
		prefix = root
	}
	if prefix == "" {
		return Source{Name: "npm", Advice: "in " + root + ", run npm install " + newest + ", or the same with the package manager of that project"}, true
	}
	// Without the prefix, an npm of another Node.js on PATH would install a second copy elsewhere.
	return Source{Name: "npm", Commands: asRootUnlessWritable(filepath.Join(root, "node_modules"), "npm", "install", "--global", "--prefix", prefix, newest)}, true
}

// cachedSource is the source of a program that a runner keeps in its cache.
func cachedSource(name string, runner ...string) Source {
	return Source{
		Name:   name,
		Runner: append(slices.Clone(runner), Package),
		Advice: name + " keeps the program in its cache; its next start with a version takes the newest: " + strings.Join(runner, " ") + " " + Package + "@latest version",
	}
}

// asRootUnlessWritable returns a command, through sudo if this user cannot write to the directory.
func asRootUnlessWritable(dir string, words ...string) [][]string {
	if isWritable(dir) {
		return [][]string{words}
	}
	return [][]string{append([]string{"sudo"}, words...)}
}

// pythonSource recognises environments by pyvenv.cfg, including those made for a single program.
func pythonSource(exe string, _ []string) (Source, bool) {
	root := filepath.Dir(filepath.Dir(exe))
	switch maker := toolenv.InstallerName(root); maker {
	case "uvx":
		return cachedSource(maker, maker), true
	case "uv tool":
		return Source{Name: maker, Commands: [][]string{{"uv", "tool", "upgrade", Package}}}, true
	case "pipx":
		return Source{Name: maker, Commands: [][]string{{"pipx", "upgrade", Package}}}, true
	}
	installed := findDistribution(root)
	if installed == "" && !paths.Exists(filepath.Join(root, "pyvenv.cfg")) {
		return Source{}, false
	}
	if lock := filepath.Join(filepath.Dir(root), "uv.lock"); filepath.Base(root) == ".venv" && paths.Exists(lock) {
		return Source{Name: "uv", Advice: "in " + filepath.Dir(root) + ", run uv sync --upgrade-package " + Package + ", if the project depends on it"}, true
	}
	python := findPython(root, installed)
	if installed != "" && !paths.Exists(filepath.Join(filepath.Dir(installed), "pip")) { // uv makes environments without pip
		if _, err := exec.LookPath("uv"); err == nil {
			return Source{Name: "uv pip", Commands: [][]string{{"uv", "pip", "install", "--python", python, "--upgrade", Package}}}, true
		}
	}
	command := []string{python, "-m", "pip", "install", "--upgrade"}
	if home, err := os.UserHomeDir(); err == nil && root == filepath.Join(paths.RealOrSame(home), ".local") {
		command = append(command, "--user")
	}
	return Source{Name: "pip", Commands: [][]string{append(command, Package)}}, true
}

// findDistribution returns the directory that pip has made for the package below root, the prefix of
// a Python; "" if there is none.
func findDistribution(root string) string {
	for _, lib := range []string{"lib/python3*", "local/lib/python3*", "Lib"} {
		found, err := filepath.Glob(filepath.Join(root, lib, "*-packages", strings.ReplaceAll(Package, "-", "_")+"-*.dist-info"))
		if err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// findPython returns the Python that the package is installed for. A prefix such as ~/.local has
// packages of a Python elsewhere, which is named by their directory.
func findPython(root, installed string) string {
	named := filepath.Base(filepath.Dir(filepath.Dir(installed)))
	for _, path := range []string{
		filepath.Join(root, "bin", "python"), filepath.Join(root, "bin", "python3"), filepath.Join(root, "bin", named),
		filepath.Join(root, "Scripts", "python.exe"), filepath.Join(root, "python.exe"),
	} {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	if strings.HasPrefix(named, "python3") {
		return named
	}
	return "python3"
}

// systemSource recognises the package managers of a system.
func systemSource(exe string, parts []string) (Source, bool) {
	newer := "download the newer file from " + releases + ", and run "
	switch {
	case slices.Contains(parts, "Cellar"):
		return Source{Name: "Homebrew", Commands: [][]string{{"brew", "update"}, {"brew", "upgrade", Package}}}, true // a tap is read only by update
	case slices.Contains(parts, "scoop"):
		return Source{Name: "Scoop", Commands: [][]string{{"scoop", "update", Package}}}, true // from the address of its manifest
	case slices.Contains(parts, "WinGet"):
		return Source{Name: "winget", Advice: newer + "winget upgrade --manifest with its directory"}, true
	case exe == "/usr/bin/repl" && paths.Exists("/var/lib/dpkg/info/"+Package+".list"):
		return fileSource("a Debian package", newer, "apt-get", "install"), true
	case exe == "/usr/bin/repl" && (paths.Exists("/usr/lib/sysimage/rpm") || paths.Exists("/var/lib/rpm")):
		return fileSource("an RPM package", newer, "rpm", "-U"), true
	}
	return Source{}, false
}

// fileSource is the source of a package that is in no repository of the system, but in a file.
func fileSource(name, newer string, manager ...string) Source {
	command := manager
	if os.Geteuid() != 0 {
		command = append([]string{"sudo"}, manager...)
	}
	return Source{Name: name, FileCommand: command, Advice: newer + "repl upgrade FILE, which runs " + strings.Join(command, " ")}
}

// goSource recognises two kinds of programs by their build information: go install builds one from
// a module, and go build builds one from a clone.
func goSource(exe string, _ []string) (Source, bool) {
	info, ok := debug.ReadBuildInfo()
	switch {
	case !ok:
		return Source{}, false
	case info.Main.Sum != "": // go build in a clone has no checksum of the module
		return Source{Name: "go install", Commands: [][]string{append(goBinWords(filepath.Dir(exe)), "go", "install", info.Main.Path+"/cmd/repl@latest")}}, true
	case !isReleased(info.Main.Version):
		return Source{Name: "go build", Advice: "in the clone, run git pull && go build -o " + shellword.Quote(exe) + " ./cmd/repl"}, true
	}
	return Source{}, false
}

// goBinWords returns the words before go install with which it writes to dir. They are none if it
// does so anyway.
func goBinWords(dir string) []string {
	usual := os.Getenv("GOBIN")
	if home, err := os.UserHomeDir(); err == nil && usual == "" {
		first, _, _ := strings.Cut(os.Getenv("GOPATH"), string(filepath.ListSeparator))
		usual = filepath.Join(cmp.Or(first, filepath.Join(home, "go")), "bin")
	}
	if filepath.Separator == '\\' || paths.RealOrSame(usual) == dir {
		return nil
	}
	return []string{"env", "GOBIN=" + dir}
}

// pseudoVersion matches the end of a version that the go command generates for an untagged commit.
var pseudoVersion = text.Pattern(`[-.]\d{14}-[0-9a-f]{12}$`)

// isReleased reports whether a version is the name of a tag.
func isReleased(version string) bool {
	return strings.HasPrefix(version, "v") && !strings.Contains(version, "+dirty") && !pseudoVersion().MatchString(version)
}
