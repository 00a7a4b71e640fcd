package cli

import (
	"fmt"
	"runtime/debug"
)

// versionLine is the first line that repl version prints.
func versionLine() string { return fmt.Sprintf("repl %s (%s)", programVersion(), buildSettings()) }

// programVersion returns the version of the module, as the go command recorded it.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// shortCommitDigits is how many digits of a commit are shown.
const shortCommitDigits = 12

// buildSettings returns how the program was built: "commit 0123456789ab, go1.26.1 linux/amd64".
func buildSettings() string {
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
