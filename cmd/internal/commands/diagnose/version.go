package diagnose

import (
	"flag"
	"fmt"
	"os"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/installsource"
)

// NewVersionCommand returns the command that prints the version for bug reports: tag, commit, and how
// the program was installed.
func NewVersionCommand(f *flag.FlagSet) cmdkit.Action {
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := cmdkit.RequireNoArgs(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		fmt.Fprintln(s.Out, cmdkit.VersionLine())
		if from, err := ownOrigin(); err == nil {
			fmt.Fprintf(s.Out, "from %s; repl upgrade gets a newer one, or says how\n", from.Name)
		}
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
