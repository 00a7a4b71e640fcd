package cmdkit

import (
	"fmt"
	"runtime/debug"
)

// VersionLine is the first line that repl version prints.
func VersionLine() string { return fmt.Sprintf("repl %s (%s)", ProgramVersion(), BuildSettings()) }

// ProgramVersion returns the version of the module, as the go command recorded it.
func ProgramVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// shortCommitDigits is how many digits of a commit are shown.
const shortCommitDigits = 12

// BuildSettings returns how the program was built: "commit 0123456789ab, go1.26.1 linux/amd64".
func BuildSettings() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown build"
	}
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	build := fmt.Sprintf("%s %s/%s", info.GoVersion, set["GOOS"], set["GOARCH"])
	if commit := set["vcs.revision"]; len(commit) >= shortCommitDigits {
		build = "commit " + commit[:shortCommitDigits] + ", " + build
	}
	return build
}
