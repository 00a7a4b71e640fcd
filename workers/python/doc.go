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
// # Fork in multiprocessing
//
// On Linux, fork stays the default start method: the worker sets it when user code imports
// multiprocessing. Children of forkserver and spawn import __main__ to find their function, and a
// cell has no file to import. With forkserver, the default of Python 3.14, a Pool.map of such a
// function starts one child after another forever. A call of set_start_method at the start would
// import multiprocessing into every session, and count as the user's choice. Cells written to files
// would run again in each child.
//
// # Lack of memory
//
// A worker continues after a MemoryError, since most of these come from one large array. It keeps a
// reserve of 4 MiB of address space, and releases it when memory runs out. It drops the frames of
// the error once the error was shown, so pdb.pm has nothing to show then. A worker that ended at
// the first MemoryError would lose all variables. A step of the worker that fails 100 times in a
// row by its own fault ends the session. Otherwise it would be repeated without end, at full load.
//
// # Unbuffered output
//
// Every write to sys.stdout and sys.stderr goes out immediately, and print writes its arguments at
// once. So output stays in order with tracebacks and child processes, and progress dots appear
// while code runs. A crash or os._exit loses no part of a line. Flushing after a time fails while
// code waits in C, and a crash still loses output. python -u writes each argument of print
// separately: a line costs two system calls, and the lines of threads are torn. The price is a
// system call of 3 to 5 µs for each write of less than a line.
//
// # Compiled code of sandboxed workers
//
// Python compiles this source in about 0.1 s at each start, unless the user's cache has the result. A
// sandboxed worker must not write that cache, since workers without a sandbox run its content. So the
// supervisor compiles once, in a separate sandbox without anything of the session and with the flags
// -I, -S and -B. Code that the worker itself compiled is not safe to take: site and .pth files run
// code of the session before it. The name of the result has a digest of the executable. So an
// executable that a session has replaced compiles only for itself.
//
// # One event loop
//
// All inputs share one event loop, which runs during inputs with an await, and one context. Notebooks
// have taught people and models that a task or a queue of one input works in the next. If every
// input ran inside the loop, asyncio.run would fail, which scripts use. If the loop also ran between
// inputs, user code would run outside of any turn: an interrupt could not name it, its output would
// belong to no turn, and a task that computes would delay the next input. So tasks and servers stand
// still between inputs, and a notice says so once.
//
// # Windows
//
// The modules unix and windows contain all differences, under equal names. On Windows SIGINT breaks
// only one wait: WaitForMultipleObjects in the main thread. So a read of the channel is always
// pending, and everything that blocks waits for its event. With a reader thread, each frame would
// wait for two threads to take turns. SIGINT does not break the wait of the main thread for a lock,
// either. Reads with a timeout are late, and wake up an idle session. Text goes in frames, because
// a pseudo console redraws output and drops markers. As in any Python for Windows, an interrupt
// does not end threading.Lock.acquire.
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
