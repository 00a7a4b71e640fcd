// Package python starts Python workers: it finds the interpreter that a user would
// expect ([Find]) and describes how to start it ([Spec]).
//
// The worker itself is Python source, embedded from src. It uses only the standard
// library, needs CPython 3.8 or newer, has one thread and requires no installation.
// src/boot.py is started from the session's private directory. It loads the modules
// of src/turnstone_worker from there, or from a cache of their compiled code.
//
//	main        the life of a worker
//	codec       MessagePack and the messages that a worker may receive
//	modules     the worker's own modules, separate from those of user code
//	channel     the two pipes: frames out, a mailbox in
//	terminal    the output streams and their position in the terminal's byte stream
//	framed      the output streams where a terminal does not preserve markers
//	interrupt   SIGINT, and which code it interrupts
//	atomic      system calls that survive asynchronous exceptions
//	standard    sys.stdin, input() and getpass(): the worker asks, the supervisor answers
//	cells       compile, run, and report one turn's code
//	loops       the event loop of inputs that await, and the context of all inputs
//	frames      what user code sees of the stack: none of the worker's frames
//	hints       a hint for inputs that are shell or notebook commands, not Python
//	changes     the user's modules whose files have changed since their import
//	display     the last expression's value, display(), and matplotlib
//	bundles     the representations that a value offers, by MIME type
//	query       whether a text is a complete input, and the variables of user code
//	completion  completions of a text
//	inspection  information about the name at the cursor
//	functions   the module turnstone: the functions of the host
//	tools       the package turnstone.tools: functions in groups
//	calls       calls of these functions, from any thread
//	values      the arguments and results of calls
//	hooks       actions around fork, exec and spawn
//	imports     the worker's own imports, and changes to modules that user code imports
//	cache       the compiled code on disk
//	system      the functions that differ by system, from unix or windows
//
// CPython for Windows looks for CTRL_C neither while its main thread waits for a lock, even with a
// timeout, nor while it reads a pipe. An interrupt takes effect after the wait, and a second one
// helps no more than the first.
//
// The package starts no goroutines and keeps no state.
//
// # Requested interpreters that cannot be used
//
// A project asks for its interpreter by an active environment, a .venv or a .python-version. If
// that one is gone, empty or too old, the search continues, and Spec.Notice says what was requested
// and why it is not used. Each front end shows it at the beginning: in the first reply, the
// greeting, or on standard error. An agent would otherwise meet ModuleNotFoundError in an
// interpreter that nobody chose. Refusing to start was rejected, because a broken environment of a
// project would lock out everybody who only looks into it. A notice in the log was rejected: no
// reply begins there.
package python
