package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// recoverCommand is the command that recovers a lost session.
const recoverCommand = "repl recover"

// recoverLost lists the sessions of programs that were killed, or writes the transcript of
// one.
func recoverLost(f *flag.FlagSet) action {
	to := f.String("to", "script", "`script|notebook|text` the form")
	path := f.String("output", "", outputWords)
	f.StringVar(path, "o", "", "`FILE` the same as --output")
	dir := f.String("session-dir", "", "`DIR` the --session-dir of the daemon or server that was killed")
	return func(s streams, args []string) (int, error) {
		words, err := parseAnywhere(f, args)
		if err != nil {
			return statusUsage, err
		}
		if len(words) > 1 {
			return statusUsage, misuse("repl recover takes one argument at most, not %q", words[1])
		}
		if !slices.Contains([]string{"script", "notebook", "text"}, *to) {
			return statusUsage, misuse("--to %s: use script, notebook or text", *to)
		}
		lost, err := supervisor.LostSessions(*dir)
		if err != nil {
			return statusFailed, err
		}
		if len(words) == 0 {
			return statusDone, listLost(s, lost)
		}
		at := slices.IndexFunc(lost, func(l supervisor.LostSession) bool { return l.Name == words[0] || l.ID == words[0] })
		if at < 0 {
			return statusFailed, fmt.Errorf("no session %q was lost in the last day (repl recover lists those that were)", words[0])
		}
		write := func(w io.Writer) error {
			w, flush := buffered(w)
			return errors.Join(writeLost(w, lost[at], *to), flush())
		}
		if *path == "" {
			return statusDone, write(s.out)
		}
		return statusDone, writeNew(*path, write)
	}

}

func listLost(s streams, lost []supervisor.LostSession) error {
	if len(lost) == 0 {
		fmt.Fprintln(s.err, "no session was lost in the last day")
		return nil
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tLANGUAGE\tFOUND\tINPUTS\tID\tOUTPUT")
	for _, l := range lost {
		inputs := 0
		for e := range l.Events() {
			if _, ok := e.Body.(timeline.TurnStarted); ok {
				inputs++
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s ago\t%d\t%s\t%s\n", l.Name, l.Worker, time.Since(l.Found).Round(time.Second), inputs, l.ID, l.OutputPath)
	}
	return w.Flush()
}

// writeLost writes a session as repl export does.
func writeLost(w io.Writer, l supervisor.LostSession, to string) error {
	from := export.Session{Name: l.Name, Language: languageOf(l.Worker).export}
	format := map[string]string{"script": from.Language.Extension, "notebook": export.Notebook, "text": export.Transcript}[to]
	return export.Write(w, format, from, l.Events())
}
