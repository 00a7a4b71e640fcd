// Package fakeworker provides a worker without a language, for tests: a real process on a real
// terminal that speaks the worker protocol. Its turns are small scripts with one command per line.
// Some commands make it break the protocol.
//
//	func TestMain(m *testing.M) {
//		testmain.Run(m, testmain.Options{Programs: []testmain.Program{fakeworker.Program}})
//	}
//
//	spec := fakeworker.NewSpec(testexec.OwnPath(), nil)
//
// # Commands
//
//	print TEXT        writes TEXT and a newline to standard output
//	err TEXT          the same to standard error
//	bulk N            writes N bytes in lines, as output frames
//	flood N           writes N bytes in lines, as print does
//	raw TEXT          writes to the terminal behind the worker's back, as C code would
//	image [SOURCE]    shows an image; with SOURCE, it replaces the last one of SOURCE
//	result TEXT       echoes a value and shows it as HTML, too
//	more TEXT         continues the echo of a value, or echoes one without marking its beginning
//	trace TEXT        writes TEXT as a traceback
//	display ID TEXT   shows TEXT, as HTML, too; +ID updates ID, and *N shows N bytes in lines
//	clear             clears the displayed output
//	silent            prints whether the turn is silent
//	dialect           prints the dialect of the turn, or "none"
//	noexit            prints whether an exit is an error of the turn
//	wait PROMPT       asks for a line and prints it; "<eof>" at the end of file
//	secret PROMPT     asks for a secret and prints how many bytes it has
//	create PATH       makes an empty file and prints "made"; an error if that fails
//	took N PROMPT     reports that line N of the input answered PROMPT
//	shell PROMPT      asks for lines and prints them; only level 2 ends that
//	all PROMPT        asks for all input and prints it
//	sleep [DURATION]  waits until interrupted, at most DURATION
//	until PATH        waits until the file exists, or until interrupted
//	busy [TEXT]       the same, but level 1 has no effect once it has printed TEXT, or "busy"
//	stuck             the same, but nothing ends it, and it acknowledges nothing, once it has
//	                  printed "stuck"
//	ignore            the same, and signals, shutdown and a closed channel do not help either,
//	                  once it has printed "ignoring"
//	sigint OWNER      reports who handles SIGINT; user code ("user") prints "caught"
//	progress          reports 1, 2 and 3 of 3
//	late TEXT         prints TEXT after the turn is over
//	error NAME MSG    ends the turn with that error
//	call NAME TEXT    calls a function of the host with the argument text, and prints the result
//	group GROUP NAME TEXT
//	                  the same for a function of a group, which is opened first if it is closed
//	rawcall N NAME    sends call N of NAME, and waits for no result
//	uncall N          cancels call N
//	child TEXT        lets a child process write TEXT to the terminal
//	sh COMMAND        lets a shell run COMMAND on the terminal
//	readtty           lets a child process read a line from the terminal, and prints it
//	fork              leaves a process behind, in a new session, that holds
//	                  the terminal; prints its process id
//	env NAME          prints a variable of the environment; "<unset>" if it is not set
//	cwd               prints the working directory
//	wide N            prints N numbered lines of 200 characters of three bytes each
//	pid               prints the worker's process id
//	exit N            ends the session and exits with N
//	die N             exits with N without a last frame
//	crash SIGNAL      is killed by that signal ("SEGV")
//	garbage           sends a frame that is not a message
//	oversize          sends a length field over the limit
//	wrongtype         sends a message with a field of the wrong type
//
// An empty line does nothing; anything else is a SyntaxError. The lines after an error or an interrupt
// are not run, and idle counts them.
//
// The main goroutine of the process runs turns. Others receive frames and signals, and wait for the
// interrupt of a query; they end with the process.
package fakeworker

import (
	"os"
	"os/signal"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers"
)

// Environment variables that make a process a fake worker. The worker removes them.
const (
	roleEnv  = "FAKEWORKER"
	startEnv = "FAKEWORKER_START"
	offerEnv = "FAKEWORKER_OFFER"
)

// Options configures how a fake worker starts and what it offers.
type Options struct {
	// Start selects the action of the start-up; "" means none.
	//
	//	print         prints "profile" after worker_ready
	//	prompt        asks for a line and prints it
	//	ttyprompt     lets a child process read a line from the terminal
	//	sleep         waits until interrupted
	//	silent        never sends worker_ready
	//	early         the terminal is read instead
	//	garbage       sends a frame that is not a message instead
	//	wrongfirst    sends idle instead
	//	wrongversion  worker_ready names another version
	//	exit N        exits with N instead
	//	leak          lets child processes inherit the channel
	Start string

	NoMarkers bool              // text comes in frames, and no frame has a mark; always so on Windows
	NoQuery   bool              // no queries
	NoCalls   bool              // no functions of the host
	Mode      ipc.InterruptMode // who signals on an interrupt; "" means ipc.InterruptBySignal
}

// NewSpec returns the spec of a fake worker: the program self, whose TestMain has Program. o may
// be nil.
func NewSpec(self string, o *Options) workers.Spec {
	if o == nil {
		o = &Options{}
	}
	var offer []string
	if !o.NoMarkers && terminalKeepsMarkers {
		offer = append(offer, "fence")
	}
	if !o.NoQuery {
		offer = append(offer, "query")
	}
	if !o.NoCalls {
		offer = append(offer, "functions")
	}
	if o.Mode == ipc.InterruptBySelf {
		offer = append(offer, "self")
	}
	return workers.Spec{
		Name: "fake",
		Path: self,
		Env: []string{
			roleEnv + "=1",
			startEnv + "=" + o.Start,
			offerEnv + "=" + strings.Join(offer, ","),
		},
		Sandbox:    sandboxcheck.Sandbox(),
		PathSource: "the program itself, for tests",
	}
}

// Program is the fake worker among the programs of a test binary. It runs in a process that was
// started by the spec of [NewSpec].
var Program = testmain.Program{Variable: roleEnv, Main: runProgram}

// lingerArgument is the value of roleEnv for a process that does nothing, forever.
const lingerArgument = "lingers"

// runProgram runs the worker and returns its exit status.
func runProgram(role string) (status int) {
	if role == lingerArgument {
		never := make(chan os.Signal, 1)
		signal.Notify(never)
		for range never {
		}
	}
	start := os.Getenv(startEnv)
	offer := strings.Split(os.Getenv(offerEnv), ",")
	channel := os.Getenv("REPL_IPC")
	for _, name := range []string{startEnv, offerEnv, "REPL_IPC"} {
		os.Unsetenv(name)
	}
	w, err := openWorker(channel, offer, start == "leak")
	if err != nil {
		os.Stderr.WriteString("fakeworker: " + err.Error() + "\n")
		return 70
	}
	return w.runWorker(start)
}
