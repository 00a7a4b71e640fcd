package cli

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/installsource"
)

// newVersionCommand prints the version for bug reports: tag, commit, and how the program was
// installed.
func newVersionCommand(f *flag.FlagSet) cmdkit.Action {
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := cmdkit.RequireNoArgs(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		fmt.Fprintln(s.Out, versionLine())
		if from, err := ownOrigin(); err == nil {
			fmt.Fprintf(s.Out, "from %s; repl upgrade shows how to get a newer one\n", from.Name)
		}
		return cmdkit.StatusDone, nil
	}
}

// newUpgradeCommand prints the command that installs a newer version. It never runs it: installing
// is up to the user.
func newUpgradeCommand(f *flag.FlagSet) cmdkit.Action {
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := cmdkit.RequireNoArgs(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		from, err := ownOrigin()
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		fmt.Fprintf(s.Out, "%s is from %s. To get the newest:\n\n    %s\n", versionLine(), from.Name, from.Upgrade)
		return cmdkit.StatusDone, nil
	}
}

// ownOrigin returns how this program was installed.
func ownOrigin() (installsource.Source, error) {
	exe, err := os.Executable()
	if err != nil {
		return installsource.Source{}, fmt.Errorf("cannot find the path of this program: %w", err)
	}
	return installsource.Find(exe), nil
}

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
