package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/workers/templates"
)

// allCommands returns all commands; repl alone is the first.
func allCommands() []commandInfo {
	const code, ours, agents, more = groupCode, groupSessions, groupAgents, groupMore
	return []commandInfo{
		{group: code, args: "[FILE [ARG ...]]", summary: "start Python or R here, or run a program", details: replText, newAction: newReplCommand},
		{group: ours, name: "serve", summary: "keep sessions alive at a private socket", details: "It runs until Ctrl-C or repl daemon stop.", newAction: newServeCommand},
		{group: ours, name: "list", summary: "list the sessions and their states", newAction: newListCommand},
		{group: ours, name: "exec", args: "SESSION", summary: "run code in a session, created if needed", details: execText(), newAction: newExecCommand},
		{group: ours, name: "input", args: "SESSION", summary: "answer an input request of a session", newAction: newInputCommand},
		{group: ours, name: "grant", args: "[SESSION]", summary: "grant a session rights, or answer its request", details: grantText, newAction: newGrantCommand},
		{group: ours, name: "attach", args: "SESSION", summary: "watch a session and type into it", details: attachText, newAction: newAttachCommand},
		{group: ours, name: "view", args: "[SESSION]", summary: "open the sessions in your browser", details: viewText, newAction: newViewCommand},
		{group: ours, name: "events", args: "SESSION", summary: "print a session's events; --json: one a line", newAction: newEventsCommand},
		{group: ours, name: "export", args: "SESSION", summary: "write successful inputs as script or notebook", newAction: newExportCommand},
		{group: ours, name: "files", args: "SESSION [FILE]", summary: "list or fetch the files that a session keeps", details: filesText, newAction: newFilesCommand},
		{group: ours, name: "recover", args: "[NAME]", summary: "list crashed sessions, or write one's inputs", details: recoverText, newAction: newRecoverCommand},
		{group: ours, name: "wait", args: "SESSION", summary: "wait until a session is idle", details: waitText(), newAction: newWaitCommand},
		{group: ours, name: "interrupt", args: "SESSION", summary: "interrupt a session; its variables stay", newAction: newInterruptCommand},
		{group: ours, name: "reset", args: "SESSION", summary: "restart the runtime; the variables are lost", newAction: newResetCommand},
		{group: ours, name: "close", args: "SESSION", summary: "end a session", newAction: newCloseCommand},
		{group: ours, name: "clients", args: "[SESSION]", summary: "list connected clients and their sessions", newAction: newClientsCommand},
		{group: ours, name: "detach", args: "[CLIENT]", summary: "disconnect a client; its turns go on", details: "repl clients lists the CLIENTs.", newAction: newDetachCommand},
		{group: ours, name: "daemon", args: "status|pause|resume|drain|stop", summary: "show, pause or stop the daemon", details: daemonText, newAction: newDaemonControlCommand},
		{group: ours, name: "service", args: "install|uninstall|print [systemd|launchd]", summary: "let systemd or launchd start repl serve", details: "print also accepts the service manager of another system.", newAction: newServiceCommand},
		{group: ours, name: "remote", args: "list|check|install|forget [REMOTE]", summary: "manage daemons on other machines", details: remoteText, newAction: newRemoteCommand},
		{group: more, name: "bridge", hidden: true, summary: "what --via and --remote run at the remote end", details: bridgeText, newAction: newBridgeCommand},
		{group: agents, name: "mcp", summary: "run an MCP server, on stdio or over HTTP", details: "Without --lang it offers all languages.", newAction: newMCPCommand},
		{group: agents, name: "install", args: "[CLIENT ...]", summary: "configure a client to start repl mcp", details: installText(), newAction: newInstallCommand, argValues: installClientNames},
		{group: agents, name: "jupyter", args: "install|list|remove|kernel [KERNEL ...]", summary: "offer sessions as Jupyter kernels", details: jupyterText, newAction: newJupyterCommand},
		{group: more, name: "doctor", summary: "check runtimes, clients and the system", details: "It shows which runtimes are used and why. Without --lang it checks all\nlanguages.", newAction: newDoctorCommand},
		{group: more, name: "sandbox", args: "[SESSION]", summary: "show what a session may do, or test a sandbox", details: "With SESSION it shows what the session sees, was granted and was refused.\nWithout it, it starts a program in a sandbox and reports what the sandbox\nenforces here, or which step this system refuses.", newAction: newSandboxCommand},
		{group: more, name: "worker", args: "check COMMAND [ARG ...]|new TEMPLATE DIR", summary: "check a worker, or create one from a template", details: workerText(), newAction: newWorkerCommand},
		{group: more, name: "completion", args: strings.Join(shellNames(), "|"), summary: "print the completion script for a shell", details: completionText, newAction: newCompletionCommand},
		{group: more, name: "version", summary: "print the version and origin of this program", newAction: newVersionCommand},
		{group: more, name: "upgrade", summary: "show how to upgrade; it changes nothing", newAction: newUpgradeCommand},
		{group: more, name: "help", args: "[TOPIC]", summary: "show help for a topic or a command", details: "A TOPIC is repl, commands, sessions or a command.", newAction: newHelpCommand, argValues: helpTopics},
	}
}

// visibleCommands returns the commands that lists show.
func visibleCommands() []commandInfo {
	return slices.DeleteFunc(allCommands(), func(c commandInfo) bool { return c.hidden })
}

const (
	replText = `At a terminal, without FILE and -e, this starts an interactive session.
Otherwise it runs a program: FILE, the code of -e, or standard input from a
pipe. It exits with the status of the code.

Without --lang the language is Python. Without --python it uses the active
virtual or conda environment, or the nearest .venv, or .python-version, or
python3 on PATH. Without --r it uses R_HOME, or the active conda environment,
or R on PATH.`

	grantText = `It needs a user at a terminal. Nothing is restarted, and calls that wait for the
permission go on. Without --read, --write, --host, --tool and --deny it shows
what the session asks for, and reads the answer.
With --always the grant also holds for all later sessions of the workspace, and
is saved in your sandbox.toml. Without SESSION, --always is for the workspace
of --dir.`

	attachText = `Ctrl-C interrupts. Ctrl-D detaches on an empty line, Ctrl-\ at any time. The
terminal first shows the last screen of the session. --watch needs no terminal.
One client writes at a time: while a turn of yours runs, only you can answer its
input requests. Inputs of others are shown with their names, and they see yours.`

	viewText = `It prints a link that admits one browser, once, within a minute, and opens it
if there is a screen. Only this machine can reach the page. Ctrl-C ends it; the
sessions go on.`

	remoteText = `A remote is a daemon elsewhere, reached through a command such as ssh gpu1 or
docker exec -i box. remotes.toml in the configuration directory names them.

list     list the remotes
check    test each step of the connection to one, and say how long it took and
         what to do if it fails
install  copy this program there, over the same connection
forget   forget its job, and where repl was installed there`

	bridgeText = `It connects to the daemon of this machine, or starts one. Then standard input
and output carry the daemon's protocol. repl COMMAND --via 'ssh gpu1' runs it on
gpu1.`

	filesText = `Without FILE it lists the files in the session's own directory, where it keeps
its output. With FILE, a name or a path that the session has reported, it writes
that file. Files that code writes elsewhere are not included.`

	recoverText = `A session crashes when its daemon or server is killed. Without NAME, this lists
the sessions that crashed in the last day. With NAME, it writes the inputs of
one, so that you can run them again. With --via, --remote or --socket it asks
the daemon there, otherwise it reads the files of this machine.`

	daemonText = `status   describe the daemon
pause    accept no new work until resume
resume   end a pause
drain    finish the running work, then exit
stop     exit, and end all sessions`

	completionText = `bash:        source <(repl completion bash)       in ~/.bashrc
zsh:         source <(repl completion zsh)        in ~/.zshrc, after compinit
fish:        repl completion fish | source        in ~/.config/fish/config.fish
PowerShell:  repl completion powershell | Out-String | Invoke-Expression
             in the file that $PROFILE names

Names of sessions come from the daemon, if one is running.`
)

func execText() string {
	return wrapText(fmt.Sprintf("The code comes from -e or from standard input. --lang, --python, --r, "+
		"--dir, --with and --session-idle-timeout are for a session that exec creates; without --lang it is Python. The exit "+
		"status is %d when the code is still running after --wait, %d when it waits for input. "+
		"Ctrl-C interrupts the code, and so does a signal that terminates exec. After a hangup, when the terminal is closed or "+
		"the login is lost, the code goes on in the session. A terminal shows the beginning and the end of long output, and a "+
		"line says where all of it is; a file or a pipe gets all of it as it arrives.", statusRunning, statusWaiting), 80)
}

func waitText() string {
	return wrapText(fmt.Sprintf("The exit status is %d when it is still running after --timeout, %d when it waits for input.", statusRunning, statusWaiting), 80)
}

func workerText() string {
	return wrapText("check tests whether a program follows the worker protocol. A TEMPLATE is one of "+strings.Join(templates.Names(), ", ")+". DIR must not exist. docs/workers.md explains how a worker becomes a language of repl.", 80)
}

func installText() string {
	return wrapText("A CLIENT is one of "+strings.Join(installClientNames(), ", ")+". The rest of its configuration is not changed.", 80)
}

// Descriptions of flags that several commands share.
const (
	codeUsage       = "`CODE` run this code; several -e are the lines of one program"
	withUsage       = "`PACKAGE` make a package available to this session only, named as for pip or install.packages; may be repeated"
	sessionDirUsage = "`DIR` where transcripts are kept while sessions live"
	workerUsage     = "`COMMAND` add a language: NAME=COMMAND starts a program that speaks the worker protocol"
	outputUsage     = "`FILE` write to this file instead of standard output"
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
	return "`" + strings.Join(all, "|") + "` the format; default a script"
}

func stdinUsage() string {
	var all []string
	for _, p := range mcpserver.StdinPolicies() {
		all = append(all, string(p))
	}
	return "`" + strings.Join(all, "|") + "` who answers when code reads input: auto (the model, but you for secrets), model, ask (you), or deny (end of file)"
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
