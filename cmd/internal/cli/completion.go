package cli

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/kept"
	"github.com/turnstone-repl/turnstone/workers"
)

//go:embed completion/*
var completionScripts embed.FS

// shellNames returns the shells that repl completion is for.
func shellNames() []string { return []string{"bash", "zsh", "fish", "powershell"} }

// completionTime bounds asking the daemon for names, because a person waits.
const completionTime = time.Second

// completion prints the script with which a shell completes this command. The scripts know
// no words themselves: they ask repl completion words.
func completion(f *flag.FlagSet) action {
	word := f.String("word", "", "`TEXT` for the scripts: what stands before the cursor, with \"words\" and the words before that")
	return func(s streams, args []string) (int, error) {
		if err := parse(f, args); err != nil {
			return statusUsage, err
		}
		if f.Arg(0) == "words" {
			if err := parse(f, f.Args()[1:]); err != nil {
				return statusUsage, err
			}
			for _, c := range complete(f.Args(), *word) {
				fmt.Fprintf(s.out, "%s\t%s\n", c.word, plainLine(c.says))
			}
			return statusDone, nil
		}
		if f.NArg() != 1 {
			return statusUsage, misuse("completion needs one of %s", strings.Join(shellNames(), ", "))
		}
		text, err := completionScripts.ReadFile("completion/" + f.Arg(0))
		if err != nil {
			return statusUsage, misuse("completion needs one of %s, not %q", strings.Join(shellNames(), ", "), f.Arg(0))
		}
		_, err = s.out.Write(text)
		return statusDone, err
	}
}

// An offer is a completion of a word. The words :files and :dirs stand for all those that
// the shell finds.
type offer struct{ word, says string }

// complete returns the completions of a word after the words before it.
func complete(before []string, word string) []offer {
	c, first := commands()[0], len(before) == 0
	if !first {
		if named, ok := commandNamed(before[0]); ok {
			c, before = named, before[1:]
		}
	}
	l := newLine(c, before)
	var found []offer
	prefix := ""
	switch name, value, joined := strings.Cut(word, "="); {
	case l.pending != nil:
		found = l.values(l.pending.value)
	case strings.HasPrefix(word, "-") && !l.only && joined:
		if o := l.option(name); o != nil {
			found, prefix, word = l.values(o.value), name+"=", value
		}
	case strings.HasPrefix(word, "-") && !l.only:
		for _, o := range c.options() {
			found = append(found, offer{dashed(o.name), o.words})
		}
	default:
		found = l.values(l.next())
		if first {
			for _, c := range commands()[1:] {
				found = append(found, offer{c.name, c.says})
			}
		}
	}
	var fits []offer
	for _, f := range found {
		switch {
		case strings.HasPrefix(f.word, ":"):
			fits = append(fits, f)
		case strings.HasPrefix(f.word, word):
			fits = append(fits, offer{prefix + f.word, f.says})
		}
	}
	return fits
}

// A line is a command line up to the word that is completed.
type line struct {
	command command
	pending *option // its value comes next
	given   int     // arguments
	only    bool    // arguments are left, and no flags
	where   where
}

func newLine(c command, before []string) *line {
	l := &line{command: c}
	var last *option
	for _, word := range before {
		switch name, value, joined := strings.Cut(word, "="); {
		case word == "=" && last != nil: // bash makes three words of --flag=value
			l.pending = last
		case l.pending != nil:
			l.take(l.pending, word)
			l.pending = nil
		case l.only || !strings.HasPrefix(word, "-") || word == "-":
			// Words after a program belong to the program.
			l.given++
			l.only = l.only || l.passes(l.argument(l.given-1))
		case word == "--":
			l.only = true
		default:
			last = l.option(name)
			if last != nil && joined {
				l.take(last, value)
			} else if last != nil && last.value != "" && !last.optional {
				l.pending = last
			}
		}
	}
	return l
}

func (l *line) take(o *option, value string) {
	switch o.name {
	case "socket":
		l.where.socket = filepath.Clean(value)
	case "via":
		l.where.via = value
	case "place":
		l.where.place = value
	}
}

func (l *line) option(name string) *option {
	for _, o := range l.command.options() {
		if "-"+o.name == name || "--"+o.name == name {
			return &o
		}
	}
	return nil
}

// passes reports whether a placeholder is a program with arguments of its own.
func (l *line) passes(placeholder string) bool {
	return strings.Contains(l.command.args, placeholder+" [ARG ...]")
}

// next returns the placeholder of the next argument; "" for none.
func (l *line) next() string { return l.argument(l.given) }

func (l *line) argument(at int) string {
	all := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(l.command.args))
	for i, p := range all {
		repeats := i+1 < len(all) && all[i+1] == "..."
		if i == at || repeats && at > i {
			return p
		}
	}
	return ""
}

// values returns the values of a placeholder: words in lower case stand for themselves.
func (l *line) values(placeholder string) []offer {
	var found []offer
	switch placeholder {
	case "FILE", "PATH", "PYTHON", "R", "COMMAND", "ARG":
		return []offer{{":files", ""}}
	case "DIR":
		return []offer{{":dirs", ""}}
	case "MECHANISM":
		return []offer{{string(workers.Landlock), "Linux without user namespaces"}}
	case "SESSION":
		return l.sessions()
	case "PLACES":
		found = append(l.values("PLACE"), offer{word: allPlaces})
	case "PLACE":
		if all, err := kept.Places(placesFile()); err == nil {
			for _, name := range append(slices.Sorted(maps.Keys(all)), kept.HerePlace) {
				found = append(found, offer{name, all[name].Via})
			}
		}
	case "CLIENT", "TOPIC":
		if l.command.words != nil {
			for _, w := range l.command.words() {
				found = append(found, offer{word: w})
			}
		}
	default:
		if placeholder == languageChoices() {
			found = kernelOffers()
		}
		for w := range strings.SplitSeq(placeholder, "|") {
			if w != "" && w != "FILE" && strings.ToUpper(placeholder) != placeholder {
				found = append(found, offer{word: w})
			}
		}
	}
	return found
}

// sessions returns the sessions of the daemon, if it answers soon. One at a place is not asked: a
// key is no reason to log in somewhere.
func (l *line) sessions() []offer {
	if l.where.choose() != nil || l.where.isAway() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	way, err := l.where.dialer(ctx)
	if err != nil {
		return nil
	}
	c, err := client.Dial(ctx, way)
	if err != nil {
		return nil
	}
	defer c.Close()
	all, err := c.ListSessions(ctx)
	if err != nil {
		return nil
	}
	var found []offer
	for _, s := range all {
		found = append(found, offer{s.Name, strings.TrimSpace(s.Language + " " + stateOf(s))})
	}
	return found
}
