package agents

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
)

// remotesUsage describes --remotes.
const remotesUsage = "`REMOTES` the agent may also have sessions at these remotes, with names like gpu/main; give names of remotes.toml, separated by commas, or all. Other sessions are in the local daemon, which is started if needed, or in the daemon of --remote or --via"

// AllRemotes is the value of --remotes for every remote in the file.
const AllRemotes = "all"

// remotesFlag is the value of --remotes: the remotes at which the agent may have sessions.
type remotesFlag []string

func (f *remotesFlag) String() string { return strings.Join(*f, ",") }

func (f *remotesFlag) Set(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return fmt.Errorf("use names of remotes separated by commas, or %s", AllRemotes)
		}
		*f = append(*f, name)
	}
	return nil
}

// resolveNames replaces "all" by the remotes of the file, checks each name, and drops the name of the
// default daemon.
func (f *remotesFlag) resolveNames(target *daemonlink.DaemonTarget) error {
	var names []string
	for _, name := range *f {
		if name == userconfig.LocalRemote && target.IsRemote() {
			return cmdkit.UsageErrorf("--remotes here: with --remote or --via, names without a remote mean sessions there; leave them out, and add the remote to --remotes")
		}
		if name == AllRemotes {
			all, err := userconfig.ReadRemotes(daemonlink.RemotesFile())
			if err != nil {
				return cmdkit.UsageErrorf("--remotes all: %v", err)
			}
			if len(all) == 0 {
				return cmdkit.UsageErrorf("--remotes all: no remotes in %s", daemonlink.RemotesFile())
			}
			names = append(names, slices.Sorted(maps.Keys(all))...)
			continue
		}
		if _, err := daemonlink.FindRemote(name); err != nil && name != userconfig.LocalRemote {
			return err
		}
		names = append(names, name)
	}
	*f = nil
	for _, name := range names {
		if !slices.Contains(*f, name) && name != target.DefaultRemote() {
			*f = append(*f, name)
		}
	}
	return nil
}

// isJobMissing reports whether a remote needs a job and none was started.
func isJobMissing(remote string) (bool, error) {
	p, err := daemonlink.FindRemote(remote)
	if err != nil || !p.NeedsJob() {
		return false, err
	}
	known, err := userconfig.ReadRemoteState(cmdkit.StateDir(), remote)
	return known.Job == "", err
}
