package cli

import (
	"flag"
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/agents"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/daemoncmd"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/diagnose"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/jupytercmd"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/run"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/sessions"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/worker"
	"github.com/turnstone-repl/turnstone/workers/templates"
)

// allCommands returns all commands; repl alone is the first.
func allCommands() []cmdkit.CommandInfo {
	const code, ours, ofAgents, more = cmdkit.GroupCode, cmdkit.GroupSessions, cmdkit.GroupAgents, cmdkit.GroupMore
	return []cmdkit.CommandInfo{
		{Group: code, Args: "[FILE [ARG ...]]", Summary: "start Python or R here, or run a program", Details: replText, NewAction: newRootCommand},
		{Group: ours, Name: "serve", Summary: "keep sessions alive at a private socket", Details: "It runs until Ctrl-C or repl daemon stop.", NewAction: daemoncmd.NewServeCommand},
		{Group: ours, Name: "list", Summary: "list the sessions and their states", NewAction: sessions.NewListCommand},
		{Group: ours, Name: "exec", Args: "SESSION [FILE]", Summary: "run code in a session, created if needed", Details: execText(), NewAction: run.NewExecCommand},
		{Group: ours, Name: "input", Args: "SESSION", Summary: "answer an input request of a session", NewAction: run.NewInputCommand},
		{Group: ours, Name: "type", Args: "SESSION KEYS", Summary: "type keys for a program of a session", Details: typeText(), NewAction: run.NewTypeCommand},
		{Group: ours, Name: "screen", Args: "SESSION", Summary: "print the screen that its programs draw", Details: screenText, NewAction: sessions.NewScreenCommand},
		{Group: ours, Name: "grant", Args: "[SESSION]", Summary: "grant a session rights, or answer its request", Details: grantText, NewAction: sessions.NewGrantCommand},
		{Group: ours, Name: "attach", Args: "SESSION", Summary: "watch a session and type into it", Details: attachText, NewAction: sessions.NewAttachCommand},
		{Group: ours, Name: "view", Args: "[SESSION]", Summary: "open the sessions in your browser", Details: viewText, NewAction: sessions.NewViewCommand},
		{Group: ours, Name: "events", Args: "SESSION", Summary: "print a session's events; --json: one a line", NewAction: sessions.NewEventsCommand},
		{Group: ours, Name: "export", Args: "SESSION", Summary: "write successful inputs as script or notebook", NewAction: sessions.NewExportCommand},
		{Group: ours, Name: "files", Args: "SESSION [FILE]", Summary: "list or fetch the files that a session keeps", Details: filesText, NewAction: sessions.NewFilesCommand},
		{Group: ours, Name: "cp", Args: "FROM TO", Summary: "copy files into a session's directory, or out of it", Details: copyText, NewAction: sessions.NewCopyCommand},
		{Group: ours, Name: "recover", Args: "[NAME]", Summary: "list crashed sessions, or write one's inputs", Details: recoverText, NewAction: sessions.NewRecoverCommand},
		{Group: ours, Name: "wait", Args: "SESSION", Summary: "wait until a session is idle", Details: waitText(), NewAction: sessions.NewWaitCommand},
		{Group: ours, Name: "interrupt", Args: "SESSION", Summary: "interrupt a session; its variables stay", NewAction: sessions.NewInterruptCommand},
		{Group: ours, Name: "reset", Args: "SESSION", Summary: "restart the runtime; the variables are lost", NewAction: sessions.NewResetCommand},
		{Group: ours, Name: "close", Args: "SESSION", Summary: "end a session", NewAction: sessions.NewCloseCommand},
		{Group: ours, Name: "clients", Args: "[SESSION]", Summary: "list connected clients and their sessions", NewAction: sessions.NewClientsCommand},
		{Group: ours, Name: "detach", Args: "[CLIENT]", Summary: "disconnect a client; its turns go on", Details: "repl clients lists the CLIENTs.", NewAction: sessions.NewDetachCommand},
		{Group: ours, Name: "daemon", Args: "status|health|metrics|pause|resume|drain|stop", Summary: "show, pause or stop the daemon", Details: daemonText, NewAction: daemoncmd.NewDaemonControlCommand},
		{Group: ours, Name: "service", Args: "install|uninstall|print [systemd|launchd]", Summary: "let systemd or launchd start repl serve", Details: "print also accepts the service manager of another system.", NewAction: daemoncmd.NewServiceCommand},
		{Group: ours, Name: "remote", Args: "list|check|install|forget [REMOTE]", Summary: "manage daemons on other machines", Details: remoteText, NewAction: remote.NewRemoteCommand},
		{Group: more, Name: "bridge", Hidden: true, Summary: "what --via and --remote run at the remote end", Details: bridgeText, NewAction: remote.NewBridgeCommand},
		{Group: ofAgents, Name: "mcp", Summary: "run an MCP server, on stdio or over HTTP", Details: "Without --lang it offers all languages.", NewAction: agents.NewMCPCommand},
		{Group: ofAgents, Name: "install", Args: "[CLIENT ...]", Summary: "configure a client to start repl mcp", Details: installText(), NewAction: agents.NewInstallCommand, ArgValues: agents.InstallClientNames},
		{Group: ofAgents, Name: "jupyter", Args: "install|list|remove|kernel [KERNEL ...]", Summary: "offer sessions as Jupyter kernels", Details: jupytercmd.JupyterText, NewAction: jupytercmd.NewJupyterCommand},
		{Group: more, Name: "doctor", Summary: "check runtimes, clients and the system", Details: "It shows which runtimes are used and why. Without --lang it checks all\nlanguages.", NewAction: diagnose.NewDoctorCommand},
		{Group: more, Name: "sandbox", Args: "[SESSION]", Summary: "show what a session may do, or test a sandbox", Details: "With SESSION it shows what the session sees, was granted and was refused.\nWithout it, it starts a program in a sandbox and reports what the sandbox\nenforces here, or which step this system refuses.", NewAction: diagnose.NewSandboxCommand},
		{Group: more, Name: "worker", Args: "check COMMAND [ARG ...]|new TEMPLATE DIR", Summary: "check a worker, or create one from a template", Details: workerText(), NewAction: worker.NewWorkerCommand},
		{Group: more, Name: "completion", Args: strings.Join(shellNames(), "|"), Summary: "print the completion script for a shell", Details: completionText, NewAction: newCompletionCommand},
		{Group: more, Name: "version", Summary: "print the version and origin of this program", NewAction: diagnose.NewVersionCommand},
		{Group: more, Name: "upgrade", Args: "[FILE]", Summary: "install a newer version, after a question", Details: upgradeText, NewAction: diagnose.NewUpgradeCommand},
		{Group: more, Name: "help", Args: "[TOPIC]", Summary: "show help for a topic or a command", Details: "A TOPIC is repl, commands, sessions or a command.", NewAction: newHelpCommand, ArgValues: helpTopics},
	}
}

// newRootCommand is repl alone.
func newRootCommand(f *flag.FlagSet) cmdkit.Action { return run.NewReplCommand(f, nearestCommand) }

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

	screenText = `It shows the terminal of the session as it is now, while code runs: a menu, an
editor, a progress bar. The last line, on standard error, has the position of
the cursor and the highlighted entries. repl type types keys there.`

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
that file. Files that code writes elsewhere are not included: see repl cp.`

	copyText = `One of FROM and TO is SESSION:PATH, with a path in the session's working
directory, and the other is a file of this machine, or - for standard input or
output. REMOTE/SESSION:PATH is at a remote. A local name with a colon is ./NAME.

The content and the right to execute are copied, and nothing else: no times, no
owners, no links. A file appears when it is complete. What the sandbox of the
session does not let its code write or see, this refuses as well.`

	recoverText = `A session crashes when its daemon or server is killed. Without NAME, this lists
the sessions that crashed in the last day. With NAME, it writes the inputs of
one, so that you can run them again. With --via, --remote or --socket it asks
the daemon there, otherwise it reads the files of this machine.`

	daemonText = `status   describe the daemon
health   print ok, paused or draining, for a probe: the exit status is 0 if it
         accepts work, 1 if not, and 3 if no daemon answers
metrics  print counters and gauges in the text format of Prometheus
pause    accept no new work until resume
resume   end a pause
drain    finish the running work, then exit
stop     exit, and end all sessions`

	upgradeText = `It runs the command of the program that has installed this one, such as uv
tool or npm, and asks before. FILE is a downloaded Debian or RPM package. It
replaces no file itself: for an archive, a cache or a project it says what to
do, and on Windows it prints the command. The exit status is 0 if the command
has succeeded. It is 1 if it failed, or if nothing was run: without --yes, that
is so after an answer other than yes, and without a terminal.`

	completionText = `bash:        source <(repl completion bash)       in ~/.bashrc
zsh:         source <(repl completion zsh)        in ~/.zshrc, after compinit
fish:        repl completion fish | source        in ~/.config/fish/config.fish
PowerShell:  repl completion powershell | Out-String | Invoke-Expression
             in the file that $PROFILE names

Names of sessions come from the daemon, if one is running.`
)

func execText() string {
	return cmdkit.WrapText(fmt.Sprintf("The code comes from -e, from FILE or from standard input. It runs as a turn, so FILE has no arguments, and no __file__. --lang, --python, --r, "+
		"--dir, --term, --with and --session-idle-timeout are for a session that exec creates; without --lang it is Python. The exit "+
		"status is %d when the code is still running after --wait, %d when it waits for input. "+
		"Ctrl-C interrupts the code, and so does a signal that terminates exec. After a hangup, when the terminal is closed or "+
		"the login is lost, the code goes on in the session. A terminal shows the beginning and the end of long output, and a "+
		"line says where all of it is; a file or a pipe gets all of it as it arrives.", cmdkit.StatusRunning, cmdkit.StatusWaiting), 80)
}

func typeText() string {
	return cmdkit.WrapText(fmt.Sprintf("The keys reach the program that the running code has started at the terminal, whether or not it "+
		"waits for input. KEYS is text with named keys, such as 'yes<Enter>' or '<Down><Down><C-c>': <Enter>, <Tab>, <S-Tab>, <Esc>, "+
		"<Space>, <BS>, <Del>, <Ins>, <Up>, <Down>, <Left>, <Right>, <Home>, <End>, <PgUp>, <PgDn>, <F1> to <F12>, <C-x> for "+
		"Ctrl and a character, <M-x> for Alt, and <lt> for the character <. Nothing is added, not even Enter. Keys that begin with a "+
		"hyphen come after --. Then it shows the output, as repl input does. The exit status is %d when the code is still running "+
		"after --wait, %d when it waits for input.", cmdkit.StatusRunning, cmdkit.StatusWaiting), 80)
}

func waitText() string {
	return cmdkit.WrapText(fmt.Sprintf("The exit status is %d when it is still running after --timeout, %d when it waits for input.", cmdkit.StatusRunning, cmdkit.StatusWaiting), 80)
}

func workerText() string {
	return cmdkit.WrapText("check tests whether a program follows the worker protocol. A TEMPLATE is one of "+strings.Join(templates.Names(), ", ")+". DIR must not exist. docs/languages.md explains how a worker becomes a language of repl.", 80)
}

func installText() string {
	return cmdkit.WrapText("A CLIENT is one of "+strings.Join(agents.InstallClientNames(), ", ")+". The rest of its configuration is not changed.", 80)
}
