package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/agents"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/daemoncmd"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/supervisor"
)

func TestCommands(t *testing.T) {
	t.Run("have complete descriptions", func(t *testing.T) {
		placeholder := regexp.MustCompile(`^([A-Z]+(:[A-Z]+)?|[A-Za-z]+(\|[A-Za-z]+)+|auto)$`)
		for _, c := range allCommands() {
			if c.Summary == "" || strings.Contains(c.Summary, "\n") || !slices.Contains(cmdkit.CommandGroups(), c.Group) {
				t.Errorf("%s: got %q in group %q", c.FullName(), c.Summary, c.Group)
			}
			for i, line := range strings.Split(c.HelpText(), "\n") {
				if len(line) > 80 {
					t.Errorf("%s: line %d has %d characters: %q", c.FullName(), i+1, len(line), line)
				}
			}
			f, _ := c.FlagSet()
			for _, o := range c.FlagOptions() {
				takesValue := true
				if b, ok := f.Lookup(o.Name).Value.(interface{ IsBoolFlag() bool }); ok {
					takesValue = !b.IsBoolFlag() || o.Name == "daemon"
				}
				if o.Usage == "" || strings.Contains(o.Usage, "`") || takesValue != (o.Value != "") {
					t.Errorf("%s %s: placeholder %q and words %q", c.FullName(), cmdkit.OptionName(o.Name), o.Value, o.Usage)
				}
				if o.Value != "" && !placeholder.MatchString(o.Value) {
					t.Errorf("%s %s: %q is not a placeholder", c.FullName(), cmdkit.OptionName(o.Name), o.Value)
				}
			}
		}
	})

	// A command accepts its flags in any position. So the error must be about the unknown option that
	// follows a known one.
	t.Run("accept every flag that their help shows", func(t *testing.T) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{"COMMAND": "own='" + self + "'", "N": "1", "PID": "1", "SIZE": "1G", "DURATION": "1h", "CODE": "1", "KIND": "python=1", "MECHANISM": "landlock", "DIR": t.TempDir()}
		for _, c := range allCommands() {
			for _, o := range c.FlagOptions() {
				form := strings.Fields(o.TypedForm())
				if len(form) == 2 {
					form[1], _, _ = strings.Cut(form[1], "|")
					if v := values[form[1]]; v != "" {
						form[1] = v
					}
				}
				form[0] = strings.NewReplacer("[", "", "]", "").Replace(form[0])
				args := append(strings.Fields(c.Name), append(form, "--no-such-flag")...)
				if c.Name == "" && (o.Name == "c" || o.Name == "m") { // all words after -c or -m belong to the program
					args = append([]string{"--no-such-flag"}, form...)
				}
				if status, _, err := runLine(t, args...); status != cmdkit.StatusUsage || !strings.Contains(err, "unknown option --no-such-flag") {
					t.Errorf("repl %q: got status %d and %q", args, status, err)
				}
			}
		}
	})
}

func TestHelp(t *testing.T) {
	t.Run("the page of the site and the manual page have every command and flag", func(t *testing.T) {
		manual, err := manualPage()
		if err != nil {
			t.Fatal(err)
		}
		markdown := commandsMarkdown()
		for _, c := range visibleCommands() {
			if !strings.Contains(markdown, "\n### "+c.FullName()+"\n") || !strings.Contains(manual, ".SS "+escapeRoff(c.UsageLine())) {
				t.Errorf("%s is missing", c.FullName())
			}
			for _, o := range c.FlagOptions() {
				if !strings.Contains(markdown, "- `"+o.TypedForm()+"`: ") || !strings.Contains(manual, ".B "+escapeRoff(o.TypedForm())) {
					t.Errorf("%s: %s is missing", c.FullName(), o.TypedForm())
				}
			}
		}
	})

	t.Run("quotes the limits and defaults of the code", func(t *testing.T) {
		if got := text.DurationWords(daemonlink.DaemonIdleTimeout); got != "24 hours" {
			t.Errorf("a daemon without use ends after %s, want 24 hours", got)
		}
		for topic, figures := range map[string][]string{
			"mcp": {
				"it exits after " + text.DurationWords(daemonlink.DaemonIdleTimeout) + " without use", "at least " + text.DurationWords(mcpserver.MinIdleTimeout), "default " + text.DurationWords(mcptransport.DefaultIdleTimeout),
				fmt.Sprintf("0 is %d, -1 never shrinks", mcpserver.DefaultImageSide),
			},
			"serve":    {fmt.Sprintf("at most %d; default %d", daemon.MaxSessions, supervisor.DefaultMaxSessions)},
			"service":  {"default " + text.DurationWords(daemoncmd.ServiceIdleTimeout)},
			"exec":     {fmt.Sprintf("status is %d when the code is still running after --wait, %d when", cmdkit.StatusRunning, cmdkit.StatusWaiting)},
			"wait":     {fmt.Sprintf("%d when it is still running", cmdkit.StatusRunning)},
			"sessions": {fmt.Sprintf("%d when no daemon answers", cmdkit.StatusUnreachable), fmt.Sprintf("%d when it waits for input", cmdkit.StatusWaiting)},
		} {
			_, page, _ := runLine(t, "help", topic)
			text := strings.Join(strings.Fields(page), " ")
			for _, figure := range figures {
				if !strings.Contains(text, figure) {
					t.Errorf("repl help %s lacks %q:\n%s", topic, figure, page)
				}
			}
			if regexp.MustCompile(`\{[a-z-]+\}`).MatchString(page) {
				t.Errorf("%s has an unfilled placeholder:\n%s", topic, page)
			}
		}
	})

	// Hand-written pages may mention only existing commands and flags. The first page must mention all
	// flags of repl alone.
	t.Run("names only commands and flags that exist", func(t *testing.T) {
		var flags []string
		for _, c := range allCommands() {
			for _, o := range c.FlagOptions() {
				flags = append(flags, cmdkit.OptionName(o.Name))
			}
		}
		for _, topic := range []string{pageRepl, pageSessions} {
			text, err := pageText(topic)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range allCommands() {
				text += c.Details
			}
			for _, named := range regexp.MustCompile(`(?m)^  repl ([a-z]+)( |$)`).FindAllStringSubmatch(text, -1) {
				if _, ok := findCommand(named[1]); !ok {
					t.Errorf("%s: there is no repl %s", topic, named[1])
				}
			}
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(text, -1) {
				if !slices.Contains(flags, flag) {
					t.Errorf("%s: no command has %s", topic, flag)
				}
			}
		}
		text, err := pageText(pageRepl)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range allCommands()[0].FlagOptions() {
			if !strings.Contains(text, cmdkit.OptionName(o.Name)+" ") {
				t.Errorf("repl help does not name %s", cmdkit.OptionName(o.Name))
			}
		}
		for _, client := range agents.InstallClientNames() {
			if client != "claude" && !regexp.MustCompile(`\b`+client+`\b`).MatchString(text) {
				t.Errorf("repl help does not name the client %s", client)
			}
		}
	})

	t.Run("only help for it shows a hidden command", func(t *testing.T) {
		for _, args := range [][]string{{"help"}, {"help", "commands"}, {"help", "--man"}, {"help", "--markdown"}} {
			if _, text, _ := runLine(t, args...); strings.Contains(text, "repl bridge") {
				t.Errorf("repl %q shows repl bridge", args)
			}
		}
		if _, text, _ := runLine(t, "help", "bridge"); !strings.HasPrefix(text, "repl bridge [FLAG ...]") {
			t.Errorf("got %q", text)
		}
	})

	t.Run("the manual page has no stray roff requests", func(t *testing.T) {
		status, text, _ := runLine(t, "help", "--man")
		if status != 0 || !strings.HasPrefix(text, ".TH REPL 1 ") {
			t.Fatalf("got status %d and %.40q", status, text)
		}
		request := regexp.MustCompile(`^\.(TH|SH|SS|PP|TP|B|br|nf|fi)\b`)
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !request.MatchString(line) {
				t.Errorf("line %d is an unintended request: %q", i+1, line)
			}
		}
		for _, c := range visibleCommands() {
			if !strings.Contains(text, "\n.SS "+escapeRoff(c.UsageLine())) {
				t.Errorf("the manual lacks %s", c.FullName())
			}
			for _, o := range c.FlagOptions() {
				if !strings.Contains(text, "\n.B "+escapeRoff(o.TypedForm())+escapeRoff(o.Usage)) {
					t.Errorf("the manual lacks %s %s", c.FullName(), o.TypedForm())
				}
			}
		}
		if got := escapeRoff(".x 'y' \\ -z\n"); got != "\\&.x \\(aqy\\(aq \\e \\-z\n" {
			t.Errorf("got %q", got)
		}
	})
}
