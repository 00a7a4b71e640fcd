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

// A command is one word of the command line. All help, the completion of the shells, the
// manual page and docs/commands.md are made from it.
type command struct {
	name  string // "" is repl alone
	args  string // after the flags: see placeholder
	says  string // one line
	text  string // more than the flags say; may be ""
	group string

	// define adds the flags with their descriptions, and returns the action to run after
	// they are parsed. It has no other effect.
	define func(f *flag.FlagSet) action

	// words are the values of CLIENT or TOPIC.
	words func() []string
}

// The groups of commands, in the order of the help.
const (
	groupCode     = "Run code"
	groupSessions = "Sessions that outlive their users"
	groupAgents   = "Agents and editors"
	groupMore     = "More"
)

func groups() []string { return []string{groupCode, groupSessions, groupAgents, groupMore} }

// commands returns all commands; repl alone is the first.
func commands() []command {
	const code, ours, agents, more = groupCode, groupSessions, groupAgents, groupMore
	return []command{
		{group: code, args: "[FILE [ARG ...]]", says: "Python or R at this terminal, or run a program", text: replText, define: repl},
		{group: ours, name: "serve", says: "keep sessions alive at a socket of your own, until Ctrl-C or repl ctl stop", define: serve},
		{group: ours, name: "list", says: "the sessions and what they do", define: listSessions},
		{group: ours, name: "exec", args: "SESSION", says: "run code in a session, which is made if needed", text: execText(), define: execIn},
		{group: ours, name: "input", args: "SESSION", says: "answer a question of a session", define: inputTo},
		{group: ours, name: "allow", args: "[SESSION]", says: "give a session with a sandbox more, or answer what it asks", text: allowText, define: allow},
		{group: ours, name: "attach", args: "SESSION", says: "watch a session, and type into it", text: attachText, define: attach},
		{group: ours, name: "view", args: "[SESSION]", says: "the sessions as a page in your browser, to read and to take part in", text: viewText, define: view},
		{group: ours, name: "events", args: "SESSION", says: "all events of a session; with --json one object a line", define: showEvents},
		{group: ours, name: "export", args: "SESSION", says: "the inputs that succeeded in a session, as a script or a notebook", define: exportFrom},
		{group: ours, name: "files", args: "SESSION [FILE]", says: "the output and the pictures that it keeps", text: filesText, define: filesOf},
		{group: ours, name: "recover", args: "[NAME]", says: "sessions that were lost in the last day, or the inputs of one", text: recoverText, define: recoverLost},
		{group: ours, name: "wait", args: "SESSION", says: "wait until a session is idle", text: waitText(), define: waitFor},
		{group: ours, name: "interrupt", args: "SESSION", says: "interrupt a session; its variables stay", define: interruptIn},
		{group: ours, name: "reset", args: "SESSION", says: "restart the runtime of a session", define: resetIn},
		{group: ours, name: "close", args: "SESSION", says: "end a session", define: closeIn},
		{group: ours, name: "clients", args: "[SESSION]", says: "the connected clients, since when, and their sessions", define: listClients},
		{group: ours, name: "detach", args: "[CLIENT]", says: "end the connection of a client; its turns go on", text: "repl clients names the CLIENTs.", define: detachClient},
		{group: ours, name: "ctl", args: "status|pause|resume|drain|stop", says: "the daemon itself", text: ctlText, define: ctl},
		{group: ours, name: "service", args: "install|uninstall|print [systemd|launchd]", says: "let systemd or launchd start repl serve", text: "print also takes the name of a manager of another system.", define: serviceCommand},
		{group: ours, name: "place", args: "list|check|install|forget [PLACE]", says: "daemons on other machines and in containers", text: placeText, define: placeCommand},
		{group: more, name: "dial", says: "what --via and --place run on the far side", text: dialText, define: dialDaemon},
		{group: agents, name: "mcp", says: "an MCP server on standard input and output, or over HTTP", text: "Without --lang it offers all languages.", define: mcp},
		{group: agents, name: "install", args: "[CLIENT ...]", says: "make a client start repl mcp", text: installText(), define: installInto, words: clientNames},
		{group: agents, name: "jupyter", args: "install|list|remove|kernel [KERNEL ...]", says: "sessions in JupyterLab, VS Code, nbclient and papermill", text: jupyterText, define: jupyterCommand},
		{group: more, name: "doctor", says: "the runtimes, why they are used, and what works here", text: "Without --lang it checks all languages.", define: doctor},
		{group: more, name: "sandbox", args: "[SESSION]", says: "what a session sees, was given and was refused; or what holds here", text: "Without SESSION it starts a program in a sandbox here, and says what holds or\nwhich step this system refuses.", define: showSandbox},
		{group: more, name: "worker", args: "check COMMAND [ARG ...]|new TEMPLATE DIR", says: "check that a program follows the worker protocol, or begin one", text: workerText(), define: worker},
		{group: more, name: "completion", args: strings.Join(shellNames(), "|"), says: "let a shell complete this command", text: completionText, define: completion},
		{group: more, name: "version", says: "version and origin of this program", define: version},
		{group: more, name: "upgrade", says: "how to get a newer version; it changes nothing", define: upgrade},
		{group: more, name: "help", args: "[TOPIC]", says: "this help; a TOPIC is repl, commands, sessions or a command", define: help, words: topics},
	}
}

const (
	replText = `At a terminal, without FILE and -e, this is a session for you. Otherwise it is a
program: FILE, the code of -e, or the input from a pipe. It exits with the
status of the code.

Without --lang it is Python. Without --python: the active virtual or conda
environment, or the nearest .venv, or .python-version, or python3 on PATH.
Without --r: R_HOME, or the active conda environment, or R on PATH.`

	allowText = `It needs a person at a terminal. Nothing is restarted, and calls that wait for
the right go on. Without --read, --write, --host and --no it shows what the
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

	placeText = `A place is where a daemon is, reached by a command such as ssh gpu1 or
docker exec -i box. places.toml in the configuration directory names them.

list     the places
check    each step of the way to one, with its time and what to do
install  bring this program there, by the same command
forget   what is remembered of one: its job, and where repl was installed there`

	dialText = `It reaches the daemon of this machine, or starts one. Then standard input and
output are the daemon's protocol. repl COMMAND --via 'ssh gpu1' runs it there.`

	filesText = `Without FILE it lists the files in the session's own directory, where it keeps
its output. With FILE, its name or the path that was said, it writes that file.
Files that code writes elsewhere are not among them.`

	recoverText = `A session is lost when its daemon or server was killed. With its NAME, this
writes its inputs, so that you can run them again. With --via, --place or
--socket the daemon there is asked, otherwise the files of this machine.`

	ctlText = `status   describe the daemon
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
	return filled(fmt.Sprintf("The code comes from -e, or from standard input. --lang, --python, --r, "+
		"--dir, --with and --cull-idle are for a session that exec makes; without --lang it is Python. The exit "+
		"status is %d when the code is still running after --wait, %d when it waits for input. "+
		"Ctrl-C interrupts the code, as a signal does that asks exec to end. After a hangup, when the terminal is closed or "+
		"the login is lost, the code goes on in the session. At a terminal much output is shown without its middle, and a "+
		"line says where all of it is; a file or a pipe gets all of it as it comes.", statusRunning, statusWaiting), 80)
}

func waitText() string {
	return filled(fmt.Sprintf("The exit status is %d when it is still running after --timeout, %d when it waits for input.", statusRunning, statusWaiting), 80)
}

func workerText() string {
	return filled("A TEMPLATE is one of "+strings.Join(templates.Names(), ", ")+". DIR must not exist. docs/workers.md says how a worker becomes a language of repl.", 80)
}

func installText() string {
	return filled("A CLIENT is one of "+strings.Join(clientNames(), ", ")+". The rest of its file stays as it is.", 80)
}

// Descriptions of flags that several commands have.
const (
	codeWords       = "`CODE` run this code; several -e are the lines of one program"
	withWords       = "`PACKAGE` make a package available, as pip or install.packages name it, for this session only; may be repeated"
	sessionDirWords = "`DIR` the directory of transcripts, while sessions live"
	workerWords     = "`COMMAND` a language of your own: NAME=COMMAND starts a program that speaks the worker protocol"
	outputWords     = "`FILE` write to this file, not to standard output"
)

func langWords() string {
	return "`" + languageChoices() + "` the language"
}

func languageChoices() string {
	var names []string
	for _, l := range languages() {
		names = append(names, l.name)
	}
	return strings.Join(names, "|")
}

func formatWords() string {
	var all []string
	for _, l := range languages() {
		for _, f := range l.export.Formats() {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return "`" + strings.Join(all, "|") + "` the form; default a script"
}

func stdinWords() string {
	var all []string
	for _, p := range mcpserver.StdinPolicies() {
		all = append(all, string(p))
	}
	return "`" + strings.Join(all, "|") + "` who answers when code reads its input: the model, but you for secrets (auto); the model; you (ask); or nobody: end of file (deny)"
}

func clientNames() []string {
	var names []string
	for _, c := range install.Clients() {
		names = append(names, c.Name)
	}
	return names
}

// topics returns the arguments of repl help.
func topics() []string {
	all := []string{pageRepl, pageCommands, pageSessions}
	for _, c := range commands()[1:] {
		all = append(all, c.name)
	}
	return all
}

// flags returns a new set of the command's flags, and its action.
func (c command) flags() (*flag.FlagSet, action) {
	f := newFlags(c.fullName())
	if c.name != "" {
		f = newFlags(c.name)
	}
	return f, c.define(f)
}

func (c command) fullName() string { return strings.TrimSpace("repl " + c.name) }

// usage returns the command with its arguments.
func (c command) usage() string {
	text := c.fullName()
	if len(c.options()) > 0 {
		text += " [FLAG ...]"
	}
	return strings.TrimSpace(text + " " + c.args)
}

// An option is a flag as the help shows it.
type option struct {
	name     string
	value    string // the placeholder; "" for a flag that has no value
	optional bool   // the value
	words    string
}

// options returns the options of a command, by name.
func (c command) options() []option {
	f, _ := c.flags()
	var all []option
	f.VisitAll(func(one *flag.Flag) { all = append(all, optionOf(one)) })
	return all
}

// optionOf reads the description of a flag: the placeholder in back quotes, then its effect.
// It adds the default, unless the description names it.
func optionOf(f *flag.Flag) option {
	o := option{name: f.Name, words: f.Usage}
	if rest, ok := strings.CutPrefix(f.Usage, "`"); ok {
		o.value, o.words, _ = strings.Cut(rest, "` ")
	}
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	o.optional = ok && b.IsBoolFlag()
	value := f.DefValue
	if d, err := time.ParseDuration(value); err == nil && d >= time.Minute {
		value = hours(d)
	}
	if !o.optional && !slices.Contains([]string{"", "0", "0s"}, value) && !strings.Contains(o.words, "default ") {
		o.words += "; default " + value
	}
	return o
}

// form returns the option as it is typed.
func (o option) form() string {
	switch {
	case o.value == "":
		return dashed(o.name)
	case o.optional:
		return dashed(o.name) + "[=" + o.value + "]"
	}
	return dashed(o.name) + " " + o.value
}
