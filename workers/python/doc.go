// Package python starts Python workers: it finds the interpreter that a user would
// expect ([Find]) and describes how to start it ([Spec]).
//
// The worker itself is Python source, embedded from src. It uses only the standard library, needs
// CPython 3.8 or newer, and requires no installation. The file src/boot.py is started from the
// session's private directory. It loads the modules of src/turnstone_worker from there, or from a
// cache of their compiled code. The worker does its work in the main thread. It has a second one
// while code awaits calls of host functions, and on Windows one that waits for interrupts.
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
//	pretty      the text of values in notebooks, with one line for each element of a wide container
//	bundles     the representations that a value offers, by MIME type
//	comms       the comms of widgets, for front ends of notebooks
//	query       whether a text is a complete input, and the variables of user code
//	completion  completions of a text
//	tables      rows of data frames as text, for readers that page through them
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
// The package starts no goroutines and keeps no state.
//
// # Fork in multiprocessing
//
// On Linux, fork stays the default start method: the worker sets it when user code imports
// multiprocessing. With forkserver, the default of Python 3.14, and with spawn, a child imports
// __main__ to find its function. A cell has no file to import. So a Pool.map of a function from a
// cell would start one child after another forever.
//
// A call of set_start_method when the worker starts was rejected. It would import multiprocessing
// into every session, and count as the user's choice. Writing cells to files was rejected, because
// each child would run them again.
//
// # Lack of memory
//
// A worker continues after a MemoryError, because most of these errors come from one large array.
// It keeps a reserve of 4 MiB of address space, and releases it when memory runs out. It drops the
// frames of the error once the error was shown, so pdb.pm has nothing to show then. Ending the
// worker at the first MemoryError was rejected, because all variables would be lost.
//
// A step of the worker that fails 100 times in a row, by its own fault, ends the session. Otherwise
// it would be repeated forever, at full load.
//
// # Unbuffered output
//
// Every write to sys.stdout and sys.stderr is passed on immediately, and print writes all its
// arguments at once. So output stays in order with tracebacks and child processes, and progress
// dots appear while code runs. A crash or os._exit loses no part of a line. The price is a system
// call of 3 to 5 µs for each write of less than a line.
//
// Flushing after a time was rejected: it fails while code waits in C, and a crash still loses
// output. The option -u of Python was rejected, because it writes each argument of print
// separately. A line then costs two system calls, and the lines of threads are mixed.
//
// # Compiled code of sandboxed workers
//
// Python compiles the worker's source in about 0.1 s at each start, unless the user's cache has the
// result. A sandboxed worker must not write that cache, because workers without a sandbox run its
// content. So the supervisor compiles the source once, in a separate sandbox. That sandbox has
// nothing of the session, and runs Python with the flags -I, -S and -B. The name of the result
// contains a digest of the executable. So an executable that a session has replaced compiles only
// for itself.
//
// Using the code that a sandboxed worker compiled was rejected: site and .pth files run code of the
// session before it.
//
// # One event loop
//
// All inputs share one event loop, which runs during inputs with an await, and one context of
// context variables. As in notebooks, a task or a queue of one input works in the next. Between
// inputs, tasks and servers stand still, and a notice says so once.
//
// Running every input inside the loop was rejected: asyncio.run would fail, and scripts use it.
// Running the loop between inputs was rejected, because user code would run outside of any turn. An
// interrupt could not name it, its output would belong to no turn, and a task that computes would
// delay the next input.
//
// # Notebooks
//
// Two of five public notebooks contain magics such as %matplotlib, most of them in the cell with the
// imports. So a turn in the dialect of notebooks accepts the usual ones, and shell commands. The worker
// translates such a cell only if it does not compile, one line to one line. The tokenizer of the
// interpreter finds the lines at which a statement begins. The source for tracebacks stays the original.
//
// Cells also have get_ipython(), because many notebooks call it first. It finds its caller on the stack:
// libraries would take it for a whole IPython, so they do not get it.
//
// Agents in the same session have plain Python. Their models know scripts better than notebooks, and a
// hint names the equivalent.
//
// A translation by the Jupyter front end was rejected: it has no tokenizer, and would change a text
// with a magic in it. IPython's own translation was rejected: IPython is mostly not installed. An
// empty cell in place of an unknown magic was rejected, because the code after it would compute
// something else.
//
// # Windows
//
// The modules unix and windows contain all differences, under equal names. On Windows SIGINT
// interrupts only one kind of wait: WaitForMultipleObjects in the main thread. So a read of the
// channel is always pending, and every wait of the worker also waits for its event. Text is sent in
// frames, because a pseudo console redraws output and drops markers.
//
// As in any Python for Windows, code in the main thread does not notice CTRL_C while it waits for a
// lock or reads a pipe. An interrupt takes effect after that wait, and a second one does not help.
//
// A reader thread was rejected. Each frame would have to wait for two threads to take turns, and
// SIGINT does not interrupt the main thread's wait for a lock. Reads with a timeout were rejected:
// they are late, and wake up an idle session.
//
// # Requested interpreters that cannot be used
//
// A project requests its interpreter by an active environment, a .venv or a .python-version. If
// that one is gone, empty or too old, the search continues. Spec.Notice then names the requested
// interpreter and says why it is not used. Each front end shows it at the beginning: in the first
// reply, in the greeting, or on standard error. Without the notice, an agent would meet
// ModuleNotFoundError in an interpreter that nobody chose.
//
// Refusing to start was rejected, because a broken environment would lock out everybody who only
// looks into the project. A notice in the log was rejected, because no reply begins there.
package python
