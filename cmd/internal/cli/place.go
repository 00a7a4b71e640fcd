package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/kept"
	"github.com/turnstone-repl/turnstone/internal/prefix"
)

// The words of repl place.
const (
	placeList    = "list"
	placeCheck   = "check"
	placeInstall = "install"
	placeForget  = "forget"
)

// checkTrips is how many round trips a check measures.
const checkTrips = 5

// placeCommand shows the places, and what is wrong with one.
func placeCommand(f *flag.FlagSet) action {
	via := f.String("via", "", "`COMMAND` check, install, forget: of a place that has no name")
	dir := f.String("dir", "", "`DIR` install: a directory there, before the usual ones")
	asJSON := f.Bool("json", false, "list: print JSON, for programs")
	return func(s streams, args []string) (int, error) {
		words, err := parseAnywhere(f, args)
		if err != nil {
			return statusUsage, err
		}
		const use = "use repl place list, check PLACE, install PLACE, or forget PLACE"
		switch {
		case len(words) == 1 && words[0] == placeList:
			return listPlaces(s, *asJSON)
		case len(words) == 0 || len(words) > 2 || !slices.Contains([]string{placeCheck, placeInstall, placeForget}, words[0]):
			return statusUsage, misuse(use)
		}
		w := where{via: *via, place: strings.Join(words[1:], ""), attended: true}
		if (w.via == "") == (w.place == "") {
			return statusUsage, misuse("place %s needs the name of a place, or --via COMMAND; repl place list shows the names", words[0])
		}
		switch words[0] {
		case placeForget:
			return forgetPlace(s, &w)
		case placeInstall:
			return installPlace(s, &w, *dir)
		}
		return checkPlace(s, &w)
	}
}

// A placeEntry is a place as repl place list --json has it.
type placeEntry struct {
	Name string `json:"name"`
	Via  string `json:"via"`
	kept.Remembered
}

func listPlaces(s streams, asJSON bool) (int, error) {
	all, err := kept.Places(placesFile())
	if err != nil {
		return statusFailed, err
	}
	entries := []placeEntry{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		known, err := kept.Recall(stateDir(), name)
		if err != nil {
			return statusFailed, err
		}
		entries = append(entries, placeEntry{name, all[name].Via, known})
	}
	if asJSON {
		return statusDone, printJSON(s.out, entries)
	}
	if len(entries) == 0 {
		fmt.Fprintf(s.err, "repl: no place has a name: write [places.NAME] and via = \"ssh HOST\" into %s\n", placesFile())
		return statusDone, nil
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "PLACE\tJOB\tPROGRAM\tVIA")
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Name, cmp.Or(e.Job, "-"), cmp.Or(all[e.Name].Repl, e.Program, "repl"), e.Via)
	}
	return statusDone, w.Flush()
}

// forgetPlace removes what the program remembers of a place. The file of places stays.
func forgetPlace(s streams, w *where) (int, error) {
	if w.place != "" && !kept.IsPlaceName(w.place) {
		return statusUsage, misuse("%q is no name of a place", w.place)
	}
	if _, err := prefix.SplitWords(w.via); w.via != "" && err != nil {
		return statusUsage, misuse("--via %v", err)
	}
	was, err := kept.Forget(stateDir(), w.key())
	if err == nil && !was {
		fmt.Fprintf(s.err, "repl: nothing is remembered of %s\n", cmp.Or(w.place, w.via))
	}
	return statusDone, err
}

// ---- repl place check

// checking prints the steps of a check.
type checking struct {
	out   io.Writer
	begun time.Time
}

// step prints a step that went well.
func (c *checking) step(what, words string) {
	fmt.Fprintf(c.out, "ok    %6.2f s  %s: %s\n", time.Since(c.begun).Seconds(), what, words)
	c.begun = time.Now()
}

// note prints something that is not wrong, and worth knowing.
func (c *checking) note(what, words string) {
	fmt.Fprintf(c.out, "note            %s: %s\n", what, words)
}

// fail prints a step that did not, with what to do, and returns the status.
func (c *checking) fail(what string, err error, remedy string) (int, error) {
	fmt.Fprintf(c.out, "wrong %6.2f s  %s: %s\n", time.Since(c.begun).Seconds(), what, oneLine(err))
	if remedy != "" {
		fmt.Fprintf(c.out, "      to do: %s\n", remedy)
	}
	return statusFailed, nil
}

// checkPlace goes the way to a place step by step. It starts nothing there.
func checkPlace(s streams, w *where) (int, error) {
	ctx, stop := catchSignals(os.Interrupt)
	defer stop()
	c := &checking{s.out, time.Now()}
	if w.place != "" {
		p, err := placeNamed(w.place)
		if err != nil {
			return c.fail("place", err, "")
		}
		c.step("place", w.place+" in "+placesFile())
		if known, err := kept.Recall(stateDir(), w.place); err != nil {
			return c.fail("job", err, "repl place forget "+w.place)
		} else if p.NeedsJob() && known.Job == "" {
			c.note("job", "none is started; the first command for this place starts one by "+p.Start)
			return statusDone, nil
		} else if p.NeedsJob() {
			c.note("job", known.Job+" is remembered; repl place forget "+w.place+" has the next command start another")
		}
	}
	way, err := w.dialer(ctx)
	if err != nil {
		return c.fail("command", err, "")
	}
	there := way.(*client.Command)
	there.InstallProgram = nil // a check changes nothing there
	return c.dial(ctx, there, w)
}

// dial checks the way from the command to the daemon.
func (c *checking) dial(ctx context.Context, way *client.Command, w *where) (int, error) {
	const get, far, serves = "command", "far side", "daemon"
	conn, err := way.Dial(ctx)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		c.step(get, prefix.JoinWords(way.Prefix)+" got through")
		c.note(far, farSide(refused.Greeting))
		c.note(serves, refused.Greeting.Error)
		c.note(serves, "repl exec SESSION"+w.again()+" starts one")
		return statusDone, nil
	}
	if err != nil {
		return c.fail(get, err, remedyFor(way, err, w))
	}
	defer closeWhole(conn)
	g := conn.(interface{ Greeting() client.Greeting }).Greeting()
	c.step(get, prefix.JoinWords(way.Prefix)+" got through")
	c.note(far, farSide(g))
	if g.Protocol != client.Protocol {
		return c.fail(serves, fmt.Errorf("it is version %s and speaks protocol %d; this program speaks %d", g.Version, g.Protocol, client.Protocol),
			"repl ctl drain"+w.again()+" with the older program, then start the one that belongs to this")
	}
	there := client.New(conn)
	defer there.Close()
	return c.measure(ctx, there, g)
}

// measure asks the daemon some times what it is.
func (c *checking) measure(ctx context.Context, there *client.Client, g client.Greeting) (int, error) {
	c.begun = time.Now()
	var took []time.Duration
	var i client.Info
	for range checkTrips {
		asked := time.Now()
		var err error
		if i, err = there.DaemonInfo(ctx); err != nil {
			return c.fail("daemon", err, "")
		}
		took = append(took, time.Since(asked))
	}
	slices.Sort(took)
	c.step("daemon", fmt.Sprintf("repl %s, process %d, %d sessions, at %s", i.Version, i.PID, i.Sessions, g.Socket))
	c.note("round trip", fmt.Sprintf("%.1f ms, the median of %d", float64(took[checkTrips/2].Microseconds())/1000, checkTrips))
	return statusDone, nil
}

func farSide(g client.Greeting) string {
	return fmt.Sprintf("%s on %s, %s/%s", g.User, g.Host, g.OS, g.Arch)
}

// remedyFor says what a person can do about a way that does not get through.
func remedyFor(way *client.Command, err error, w *where) string {
	ssh := len(way.Prefix) > 1 && strings.HasPrefix(way.Prefix[0], "ssh")
	ended, ok := errors.AsType[*client.CommandError](err)
	switch {
	case ok && ended.NoProgram:
		return "repl place install" + w.argument() + " brings it there; or name one that is there, repl = \"/path/of/repl\" in " + placesFile()
	case ok && ended.Status == 255 && ssh:
		return "run " + prefix.JoinWords(way.Prefix) + " true once at a terminal: it shows what ssh asks or refuses"
	case ok && ended.Status == 0:
		return "have the command run the words that follow it: try " + prefix.JoinWords(way.Prefix) + " echo hello"
	case errors.Is(err, client.ErrTerminal):
		return "take the option for a terminal out of the command"
	case !ok && ssh:
		return "try " + prefix.JoinWords(way.Prefix) + " true; a shared connection that hangs is ended by ssh -O exit " + way.Prefix[len(way.Prefix)-1]
	}
	return ""
}
