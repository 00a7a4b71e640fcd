package diagnose

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/installsource"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// NewUpgradeCommand returns the command that installs a newer version through the program that has
// installed this one. It asks first. It writes no file itself: see package installsource.
func NewUpgradeCommand(f *flag.FlagSet) cmdkit.Action {
	yes := f.Bool("yes", false, "run the command without asking")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(f, args)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		from, err := ownOrigin()
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		if from, err = withFile(from, words); err != nil {
			return cmdkit.StatusUsage, err
		}
		if len(from.Commands) == 0 {
			fmt.Fprintf(s.Out, "%s is from %s. To get the newest, %s\n", cmdkit.VersionLine(), from.Name, from.Advice)
			return cmdkit.StatusFailed, nil
		}
		fmt.Fprintf(s.Out, "%s is from %s. To get the newest:\n\n    %s\n\n", cmdkit.VersionLine(), from.Name, from.UpgradeText())
		if !installsource.ReplacesRunningFile {
			return cmdkit.StatusFailed, errors.New("nothing was run: Windows does not replace the file of a running program; end the daemon with repl daemon drain, close the clients that run repl mcp, and run the command yourself")
		}
		if !*yes && !confirmUpgrade(s) {
			return cmdkit.StatusFailed, errors.New("nothing was run; --yes runs it without a question")
		}
		return runUpgrade(s, from)
	}
}

// withFile returns the source with the command that installs the file of a release, if there is one.
func withFile(from installsource.Source, words []string) (installsource.Source, error) {
	if len(words) == 0 {
		return from, nil
	}
	if from.FileCommand == nil {
		return from, cmdkit.UsageErrorf("upgrade takes no file: this program is from %s", from.Name)
	}
	if len(words) > 1 {
		return from, cmdkit.UsageErrorf("upgrade takes no argument %q", words[1])
	}
	path, err := filepath.Abs(words[0]) // apt-get takes other words for names of packages
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return from, cmdkit.UsageErrorf("upgrade: %v", err)
	}
	from.Commands = [][]string{append(slices.Clone(from.FileCommand), path)}
	return from, nil
}

// confirmUpgrade reports whether the user agrees. Without a terminal nobody is asked.
func confirmUpgrade(s cmdkit.Streams) bool {
	if !term.IsTerminal(int(s.In.Fd())) || !cmdkit.IsTerminal(s.Err) {
		return false
	}
	answer, err := cmdkit.AskUser(s, "Run it? [y/N] ")
	if err != nil {
		fmt.Fprintln(s.Err)
	}
	return err == nil && cmdkit.IsYes(answer)
}

// runUpgrade runs the commands at the terminal, and reports the version that is installed then.
func runUpgrade(s cmdkit.Streams, from installsource.Source) (int, error) {
	program, err := install.SelfCommand(os.Args[0]) // before its file is replaced
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	ctx, stop := cmdkit.CatchSignals(os.Interrupt) // the command gets the signals of the terminal, too, and decides
	defer stop()
	for _, words := range from.Commands {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
		// Not in the working directory, whose settings of npm or uv may be those of a stranger's project.
		if cmd.Dir, err = os.UserHomeDir(); err != nil {
			return cmdkit.StatusFailed, err
		}
		err = cmd.Run()
		if status, ok := cmdkit.SignalStatus(ctx); ok {
			return status, nil
		}
		if err != nil {
			return cmdkit.StatusFailed, fmt.Errorf("%s failed: %w", installsource.CommandText([][]string{words}), err)
		}
	}
	now, err := installedVersion(ctx, program[0])
	if err != nil {
		return cmdkit.StatusFailed, fmt.Errorf("the command has succeeded, but %s does not start: %w", program[0], err)
	}
	if now == cmdkit.VersionLine() {
		fmt.Fprintf(s.Out, "\nThe version is still %s: it is the newest that %s finds, or a version was pinned at the installation.\n", cmdkit.ProgramVersion(), from.Name)
	} else {
		fmt.Fprintf(s.Out, "\n%s is now %s.\n", program[0], now)
	}
	printDaemonAfterUpgrade(ctx, s, now)
	return cmdkit.StatusDone, nil
}

// installedVersion returns the first line that a program prints about its version.
func installedVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, installedVersionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err == nil && !strings.HasPrefix(line, "repl ") {
		err = fmt.Errorf("it does not print the version of repl (%.60q)", line)
	}
	return line, err
}

// installedVersionTimeout bounds the first start of a new version, which a virus scanner may delay.
const installedVersionTimeout = 30 * time.Second

// printDaemonAfterUpgrade says which version the running daemon is, unless it is the new one.
func printDaemonAfterUpgrade(ctx context.Context, s cmdkit.Streams, now string) {
	info, socket, err := daemonlink.RunningDaemon(ctx)
	if err != nil || strings.HasPrefix(now, "repl "+info.Version+" (") {
		return
	}
	fmt.Fprintf(s.Out, "The daemon at %s is still repl %s, with %s. %s\n", socket, info.Version, text.Count(info.Sessions, "session"), daemonlink.DrainHint)
}
