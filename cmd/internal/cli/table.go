package cli

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/workers/templates"
)

// An action runs a command with the arguments after its name. Its error is printed; for a
// *usageError the exit status is 2.
type action func(s streams, args []string) (status int, err error)

// A command describes repl itself or a subcommand. Help, shell completion, the manual page and
// docs/commands.md are generated from it.
type command struct {
	name    string // "" is repl alone
	args    string // shown after the flags; see placeholderAt
	summary string // one line
	details string // what the flags do not say; may be ""
	group   string
	hidden  bool // only for other programs: no list shows it, but repl help NAME does

	// newAction adds the flags with their descriptions, and returns the action to run after they
	// are parsed. It has no other effect.
	newAction func(f *flag.FlagSet) action

	// argValues returns the values of CLIENT or TOPIC.
	argValues func() []string
}

// The groups of commands, in the order of the help.
const (
	groupCode     = "Run code"
	groupSessions = "Sessions that outlive their users"
	groupAgents   = "Agents and editors"
	groupMore     = "More"
)

func commandGroups() []string { return []string{groupCode, groupSessions, groupAgents, groupMore} }

// allCommands returns all commands; repl alone is the first.
func allCommands() []command {
	const code, ours, agents, more = groupCode, groupSessions, groupAgents, groupMore
	return []command{
		{group: code, args: "[FILE [ARG ...]]", summary: "Python or R at this terminal, or run a program", details: replText, newAction: newReplCommand},
		{group: ours, name: "serve", summary: "keep sessions alive at a socket of your own, until Ctrl-C or repl daemon stop", newAction: newServeCommand},
		{group: ours, name: "list", summary: "the sessions and what they do", newAction: newListCommand},
		{group: ours, name: "exec", args: "SESSION", summary: "run code in a session, which is made if needed", details: execText(), newAction: newExecCommand},
		{group: ours, name: "input", args: "SESSION", summary: "answer a question of a session", newAction: newInputCommand},
		{group: ours, name: "grant", args: "[SESSION]", summary: "give a session with a sandbox more, or answer what it asks", details: grantText, newAction: newGrantCommand},
		{group: ours, name: "attach", args: "SESSION", summary: "watch a session, and type into it", details: attachText, newAction: newAttachCommand},
		{group: ours, name: "view", args: "[SESSION]", summary: "the sessions as a page in your browser, to read and to take part in", details: viewText, newAction: newViewCommand},
		{group: ours, name: "events", args: "SESSION", summary: "all events of a session; with --json one object a line", newAction: newEventsCommand},
		{group: ours, name: "export", args: "SESSION", summary: "the inputs that succeeded in a session, as a script or a notebook", newAction: newExportCommand},
		{group: ours, name: "files", args: "SESSION [FILE]", summary: "the output and the pictures that it keeps", details: filesText, newAction: newFilesCommand},
		{group: ours, name: "recover", args: "[NAME]", summary: "sessions that were lost in the last day, or the inputs of one", details: recoverText, newAction: newRecoverCommand},
		{group: ours, name: "wait", args: "SESSION", summary: "wait until a session is idle", details: waitText(), newAction: newWaitCommand},
		{group: ours, name: "interrupt", args: "SESSION", summary: "interrupt a session; its variables stay", newAction: newInterruptCommand},
		{group: ours, name: "reset", args: "SESSION", summary: "restart the runtime of a session", newAction: newResetCommand},
		{group: ours, name: "close", args: "SESSION", summary: "end a session", newAction: newCloseCommand},
		{group: ours, name: "clients", args: "[SESSION]", summary: "the connected clients, since when, and their sessions", newAction: newClientsCommand},
		{group: ours, name: "detach", args: "[CLIENT]", summary: "end the connection of a client; its turns go on", details: "repl clients names the CLIENTs.", newAction: newDetachCommand},
		{group: ours, name: "daemon", args: "status|pause|resume|drain|stop", summary: "show, pause or stop the daemon", details: daemonText, newAction: newDaemonControlCommand},
		{group: ours, name: "service", args: "install|uninstall|print [systemd|launchd]", summary: "let systemd or launchd start repl serve", details: "print also takes the name of a manager of another system.", newAction: newServiceCommand},
		{group: ours, name: "remote", args: "list|check|install|forget [REMOTE]", summary: "daemons on other machines and in containers", details: remoteText, newAction: newRemoteCommand},
		{group: more, name: "bridge", hidden: true, summary: "what --via and --remote run at the remote end", details: bridgeText, newAction: newBridgeCommand},
		{group: agents, name: "mcp", summary: "an MCP server on standard input and output, or over HTTP", details: "Without --lang it offers all languages.", newAction: newMCPCommand},
		{group: agents, name: "install", args: "[CLIENT ...]", summary: "make a client start repl mcp", details: installText(), newAction: newInstallCommand, argValues: installClientNames},
		{group: agents, name: "jupyter", args: "install|list|remove|kernel [KERNEL ...]", summary: "sessions in JupyterLab, VS Code, nbclient and papermill", details: jupyterText, newAction: newJupyterCommand},
		{group: more, name: "doctor", summary: "the runtimes, why they are used, and what works here", details: "Without --lang it checks all languages.", newAction: newDoctorCommand},
		{group: more, name: "sandbox", args: "[SESSION]", summary: "what a session sees, was given and was refused; or what holds here", details: "Without SESSION it starts a program in a sandbox here, and says what holds or\nwhich step this system refuses.", newAction: newSandboxCommand},
		{group: more, name: "worker", args: "check COMMAND [ARG ...]|new TEMPLATE DIR", summary: "check that a program follows the worker protocol, or begin one", details: workerText(), newAction: newWorkerCommand},
		{group: more, name: "completion", args: strings.Join(shellNames(), "|"), summary: "let a shell complete this command", details: completionText, newAction: newCompletionCommand},
		{group: more, name: "version", summary: "version and origin of this program", newAction: newVersionCommand},
		{group: more, name: "upgrade", summary: "how to get a newer version; it changes nothing", newAction: newUpgradeCommand},
		{group: more, name: "help", args: "[TOPIC]", summary: "this help; a TOPIC is repl, commands, sessions or a command", newAction: newHelpCommand, argValues: helpTopics},
	}
}

// visibleCommands returns the commands that lists show.
func visibleCommands() []command {
	return slices.DeleteFunc(allCommands(), func(c command) bool { return c.hidden })
}

const (
	replText = `At a terminal, without FILE and -e, this is a session for you. Otherwise it is a
program: FILE, the code of -e, or the input from a pipe. It exits with the
status of the code.

Without --lang it is Python. Without --python: the active virtual or conda
environment, or the nearest .venv, or .python-version, or python3 on PATH.
Without --r: R_HOME, or the active conda environment, or R on PATH.`

	grantText = `It needs a person at a terminal. Nothing is restarted, and calls that wait for
the right go on. Without --read, --write, --host and --deny it shows what the
session asks, and takes the answer.
With --always it holds for all later sessions of the workspace, too, and is
kept in the user's own sandbox.toml. Without SESSION, --always is for the
workspace --dir.`

	attachText = `Ctrl-C interrupts, Ctrl-D detaches where nothing is typed, Ctrl-\ at any time.
It begins with the last screen of the session. --watch needs no terminal. One
writer at a time: while a turn of yours runs, only you can answer its questions.
Input of others is shown with their names, and they see yours.`

	viewText = `It prints a link that lets one browser in, once, within a minute, and opens it
where there is a screen. Only this machine reaches the page. It ends with
Ctrl-C; the sessions go on.`

	remoteText = `A remote is a daemon elsewhere, reached through a command such as ssh gpu1 or
docker exec -i box. remotes.toml in the configuration directory names them.

list     list the remotes
check    test each step of the connection to one, and say how long it took and
         what to do if it fails
install  copy this program there, over the same connection
forget   forget its job, and where repl was installed there`

	bridgeText = `It reaches the daemon of this machine, or starts one. Then standard input and
output are the daemon's protocol. repl COMMAND --via 'ssh gpu1' runs it there.`

	filesText = `Without FILE it lists the files in the session's own directory, where it keeps
its output. With FILE, its name or the path that was said, it writes that file.
Files that code writes elsewhere are not among them.`

	recoverText = `A session is lost when its daemon or server was killed. With its NAME, this
writes its inputs, so that you can run them again. With --via, --remote or
--socket the daemon there is asked, otherwise the files of this machine.`

	daemonText = `status   describe the daemon
pause    no new work until resume
resume   end a pause
drain    finish the work, then end
stop     end, and all sessions with it`

	completionText = `bash:        source <(repl completion bash)       in ~/.bashrc
zsh:         source <(repl completion zsh)        in ~/.zshrc, after compinit
fish:        repl completion fish | source        in ~/.config/fish/config.fish
PowerShell:  repl completion powershell | Out-String | Invoke-Expression
             in the file that $PROFILE names

Names of sessions come from the daemon, if one runs.`
)

func execText() string {
	return wrapText(fmt.Sprintf("The code comes from -e, or from standard input. --lang, --python, --r, "+
		"--dir, --with and --session-idle-timeout are for a session that exec makes; without --lang it is Python. The exit "+
		"status is %d when the code is still running after --wait, %d when it waits for input. "+
		"Ctrl-C interrupts the code, as a signal does that asks exec to end. After a hangup, when the terminal is closed or "+
		"the login is lost, the code goes on in the session. At a terminal much output is shown without its middle, and a "+
		"line says where all of it is; a file or a pipe gets all of it as it comes.", statusRunning, statusWaiting), 80)
}

func waitText() string {
	return wrapText(fmt.Sprintf("The exit status is %d when it is still running after --timeout, %d when it waits for input.", statusRunning, statusWaiting), 80)
}

func workerText() string {
	return wrapText("A TEMPLATE is one of "+strings.Join(templates.Names(), ", ")+". DIR must not exist. docs/workers.md says how a worker becomes a language of repl.", 80)
}

func installText() string {
	return wrapText("A CLIENT is one of "+strings.Join(installClientNames(), ", ")+". The rest of its file stays as it is.", 80)
}

// Descriptions of flags that several commands share.
const (
	codeUsage       = "`CODE` run this code; several -e are the lines of one program"
	withUsage       = "`PACKAGE` make a package available, as pip or install.packages name it, for this session only; may be repeated"
	sessionDirUsage = "`DIR` the directory of transcripts, while sessions live"
	workerUsage     = "`COMMAND` a language of your own: NAME=COMMAND starts a program that speaks the worker protocol"
	outputUsage     = "`FILE` write to this file, not to standard output"
)

func langUsage() string {
	return "`" + languageChoices() + "` the language"
}

func languageChoices() string {
	var names []string
	for _, l := range availableLanguages() {
		names = append(names, l.name)
	}
	return strings.Join(names, "|")
}

func formatUsage() string {
	var all []string
	for _, l := range availableLanguages() {
		for _, f := range l.export.Formats() {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return "`" + strings.Join(all, "|") + "` the form; default a script"
}

func stdinUsage() string {
	var all []string
	for _, p := range mcpserver.StdinPolicies() {
		all = append(all, string(p))
	}
	return "`" + strings.Join(all, "|") + "` who answers when code reads its input: the model, but you for secrets (auto); the model; you (ask); or nobody: end of file (deny)"
}

func installClientNames() []string {
	var names []string
	for _, c := range install.Clients() {
		names = append(names, c.Name)
	}
	return names
}

// helpTopics returns the arguments of repl help.
func helpTopics() []string {
	all := []string{pageRepl, pageCommands, pageSessions}
	for _, c := range visibleCommands()[1:] {
		all = append(all, c.name)
	}
	return all
}

// flagSet returns a new set of the command's flags, and its action.
func (c command) flagSet() (*flag.FlagSet, action) {
	f := newFlags(c.fullName())
	if c.name != "" {
		f = newFlags(c.name)
	}
	return f, c.newAction(f)
}

func (c command) fullName() string { return strings.TrimSpace("repl " + c.name) }

// usageLine returns the command with its arguments.
func (c command) usageLine() string {
	text := c.fullName()
	if len(c.flagOptions()) > 0 {
		text += " [FLAG ...]"
	}
	return strings.TrimSpace(text + " " + c.args)
}

// An option is a flag as the help shows it.
type option struct {
	name     string
	value    string // the placeholder; "" for a flag that has no value
	optional bool   // the value may be omitted
	usage    string
}

// flagOptions returns the options of a command, by name.
func (c command) flagOptions() []option {
	f, _ := c.flagSet()
	var all []option
	f.VisitAll(func(one *flag.Flag) { all = append(all, newOption(one)) })
	return all
}

// newOption parses the description of a flag: the placeholder in back quotes, then its effect. It
// adds the default, unless the description names it.
func newOption(f *flag.Flag) option {
	o := option{name: f.Name, usage: f.Usage}
	if rest, ok := strings.CutPrefix(f.Usage, "`"); ok {
		o.value, o.usage, _ = strings.Cut(rest, "` ")
	}
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	o.optional = ok && b.IsBoolFlag()
	value := f.DefValue
	if d, err := time.ParseDuration(value); err == nil && d >= time.Minute {
		value = hours(d)
	}
	if !o.optional && !slices.Contains([]string{"", "0", "0s"}, value) && !strings.Contains(o.usage, "default ") {
		o.usage += "; default " + value
	}
	return o
}

// typedForm returns the option as it is typed.
func (o option) typedForm() string {
	switch {
	case o.value == "":
		return optionName(o.name)
	case o.optional:
		return optionName(o.name) + "[=" + o.value + "]"
	}
	return optionName(o.name) + " " + o.value
}
