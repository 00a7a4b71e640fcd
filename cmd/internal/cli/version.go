package cli

import (
	"flag"
	"fmt"
	"runtime/debug"
)

// version prints the version, for reports.
func version(f *flag.FlagSet) action {
	return func(s streams, args []string) (int, error) {
		if err := parse(f, args); err != nil {
			return statusUsage, err
		}
		if err := nothingAfter(f); err != nil {
			return statusUsage, err
		}
		fmt.Fprintf(s.out, "repl %s (%s)\n", programVersion(), buildSettings())
		return statusDone, nil
	}

}

// programVersion returns the version of the module, as the go command recorded it.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// buildSettings returns how it was built: "go1.26.1 linux/amd64".
func buildSettings() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown build"
	}
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	return fmt.Sprintf("%s %s/%s", info.GoVersion, set["GOOS"], set["GOARCH"])
}
