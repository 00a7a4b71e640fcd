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
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/agents"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/jupytercmd"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/sessions"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/sandbox"
)

// completionScripts holds a script for each shell.
//
//go:embed completion/*
var completionScripts embed.FS

// shellNames returns the shells that repl completion supports.
func shellNames() []string { return []string{"bash", "zsh", "fish", "powershell"} }

// completionTimeout bounds the request to the daemon for names, because the user is waiting at the
// prompt.
const completionTimeout = time.Second

// newCompletionCommand prints the script with which a shell completes this command. The scripts
// contain no words of their own; they call repl completion words.
func newCompletionCommand(f *flag.FlagSet) cmdkit.Action {
	word := f.String("word", "", "`TEXT` for the scripts: the text before the cursor, with \"words\" and the words before it")
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if f.Arg(0) == "words" {
			if err := cmdkit.ParseFlags(f, f.Args()[1:]); err != nil {
				return cmdkit.StatusUsage, err
			}
			for _, c := range completeWord(f.Args(), *word) {
				fmt.Fprintf(s.Out, "%s\t%s\n", c.Word, cmdkit.PlainLine(c.Description))
			}
			return cmdkit.StatusDone, nil
		}
		if f.NArg() != 1 {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("completion needs one of %s", strings.Join(shellNames(), ", "))
		}
		text, err := completionScripts.ReadFile("completion/" + f.Arg(0))
		if err != nil {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("completion needs one of %s, not %q", strings.Join(shellNames(), ", "), f.Arg(0))
		}
		_, err = s.Out.Write(text)
		return cmdkit.StatusDone, err
	}
}

// completeWord returns the completions of a word, given the words before it.
func completeWord(before []string, word string) []cmdkit.CompletionItem {
	c, first := allCommands()[0], len(before) == 0
	if !first {
		if named, ok := findCommand(before[0]); ok {
			c, before = named, before[1:]
		}
	}
	l := newCompletionLine(c, before)
	var found []cmdkit.CompletionItem
	prefix := ""
	switch name, value, joined := strings.Cut(word, "="); {
	case l.pendingOption != nil:
		found = l.placeholderValues(l.pendingOption.Value)
	case strings.HasPrefix(word, "-") && !l.argsOnly && joined:
		if o := l.findOption(name); o != nil {
			found, prefix, word = l.placeholderValues(o.Value), name+"=", value
		}
	case strings.HasPrefix(word, "-") && !l.argsOnly:
		for _, o := range c.FlagOptions() {
			found = append(found, cmdkit.CompletionItem{Word: cmdkit.OptionName(o.Name), Description: o.Usage})
		}
	default:
		found = l.placeholderValues(l.nextPlaceholder())
		if first {
			for _, c := range visibleCommands()[1:] {
				found = append(found, cmdkit.CompletionItem{Word: c.Name, Description: c.Summary})
			}
		}
	}
	var matching []cmdkit.CompletionItem
	for _, f := range found {
		switch {
		case strings.HasPrefix(f.Word, ":"):
			matching = append(matching, f)
		case strings.HasPrefix(f.Word, word):
			matching = append(matching, cmdkit.CompletionItem{Word: prefix + f.Word, Description: f.Description})
		}
	}
	return matching
}

// A completionLine is the part of a command line before the word to complete.
type completionLine struct {
	command       cmdkit.CommandInfo
	pendingOption *cmdkit.FlagOption // whose value comes next
	argCount      int                // number of arguments so far
	argsOnly      bool               // no flags may follow
	target        daemonlink.DaemonTarget
}

func newCompletionLine(c cmdkit.CommandInfo, before []string) *completionLine {
	l := &completionLine{command: c}
	var last *cmdkit.FlagOption
	for _, word := range before {
		switch name, value, joined := strings.Cut(word, "="); {
		case word == "=" && last != nil: // bash splits --flag=value into three words
			l.pendingOption = last
		case l.pendingOption != nil:
			l.setTarget(l.pendingOption, word)
			l.pendingOption = nil
		case l.argsOnly || !strings.HasPrefix(word, "-") || word == "-":
			// Words after a program belong to the program.
			l.argCount++
			l.argsOnly = l.argsOnly || l.isProgramPlaceholder(l.placeholderAt(l.argCount-1))
		case word == "--":
			l.argsOnly = true
		default:
			last = l.findOption(name)
			if last != nil && joined {
				l.setTarget(last, value)
			} else if last != nil && last.Value != "" && !last.Optional {
				l.pendingOption = last
			}
		}
	}
	return l
}

func (l *completionLine) setTarget(o *cmdkit.FlagOption, value string) {
	switch o.Name {
	case "socket":
		l.target.Socket = filepath.Clean(value)
	case "via":
		l.target.Via = value
	case "remote":
		l.target.Remote = value
	}
}

func (l *completionLine) findOption(name string) *cmdkit.FlagOption {
	for _, o := range l.command.FlagOptions() {
		if "-"+o.Name == name || "--"+o.Name == name {
			return &o
		}
	}
	return nil
}

// isProgramPlaceholder reports whether a placeholder stands for a program with arguments of its
// own.
func (l *completionLine) isProgramPlaceholder(placeholder string) bool {
	return strings.Contains(l.command.Args, placeholder+" [ARG ...]")
}

// nextPlaceholder returns the placeholder of the next argument, or "" if no more may follow.
func (l *completionLine) nextPlaceholder() string { return l.placeholderAt(l.argCount) }

func (l *completionLine) placeholderAt(at int) string {
	all := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(l.command.Args))
	for i, p := range all {
		repeats := i+1 < len(all) && all[i+1] == "..."
		if i == at || repeats && at > i {
			return p
		}
	}
	return ""
}

// placeholderValues returns the values of a placeholder. Words in lower case stand for themselves.
func (l *completionLine) placeholderValues(placeholder string) []cmdkit.CompletionItem {
	var found []cmdkit.CompletionItem
	switch placeholder {
	case "FILE", "PATH", "PYTHON", "R", "COMMAND", "ARG":
		return []cmdkit.CompletionItem{{Word: ":files"}}
	case "FROM", "TO":
		found = []cmdkit.CompletionItem{{Word: ":files"}}
		for _, s := range l.sessionItems() {
			found = append(found, cmdkit.CompletionItem{Word: s.Word + ":", Description: s.Description})
		}
	case "DIR":
		return []cmdkit.CompletionItem{{Word: ":dirs"}}
	case "MECHANISM":
		return []cmdkit.CompletionItem{{Word: string(sandbox.Landlock), Description: "Linux without user namespaces"}}
	case "SESSION":
		return l.sessionItems()
	case "REMOTES":
		found = append(l.placeholderValues("REMOTE"), cmdkit.CompletionItem{Word: agents.AllRemotes})
	case "REMOTE":
		if all, err := userconfig.ReadRemotes(daemonlink.RemotesFile()); err == nil {
			for _, name := range append(slices.Sorted(maps.Keys(all)), userconfig.LocalRemote) {
				found = append(found, cmdkit.CompletionItem{Word: name, Description: all[name].Command})
			}
		}
	case "CLIENT", "TOPIC":
		if l.command.ArgValues != nil {
			for _, w := range l.command.ArgValues() {
				found = append(found, cmdkit.CompletionItem{Word: w})
			}
		}
	default:
		if placeholder == languages.Choices() {
			found = jupytercmd.KernelItems()
		}
		for w := range strings.SplitSeq(placeholder, "|") {
			if w != "" && w != "FILE" && strings.ToUpper(placeholder) != placeholder {
				found = append(found, cmdkit.CompletionItem{Word: w})
			}
		}
	}
	return found
}

// sessionItems returns the sessions of the daemon if it answers in time. It does not ask a remote:
// pressing Tab is no reason to log in somewhere.
func (l *completionLine) sessionItems() []cmdkit.CompletionItem {
	if l.target.ResolveTarget() != nil || l.target.IsRemote() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	dialer, err := l.target.Dialer(ctx)
	if err != nil {
		return nil
	}
	c, err := client.Dial(ctx, dialer)
	if err != nil {
		return nil
	}
	defer c.Close()
	all, err := c.ListSessions(ctx)
	if err != nil {
		return nil
	}
	var found []cmdkit.CompletionItem
	for _, s := range all {
		found = append(found, cmdkit.CompletionItem{Word: s.Name, Description: strings.TrimSpace(s.Language + " " + sessions.StateText(s))})
	}
	return found
}
