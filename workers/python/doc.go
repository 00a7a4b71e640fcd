// Package python starts Python workers: it finds the interpreter a person would
// expect ([Find]) and describes how to start it ([Spec]).
//
// The worker itself is Python source, embedded from src: the standard library
// only, CPython 3.8 and newer, one thread, nothing to install. src/boot.py is
// started from the session's private directory and loads the modules in
// src/turnstone_worker from there, or from a cache of their compiled code.
//
//	main        the life of a worker
//	codec       MessagePack and the messages that a worker may receive
//	modules     the worker's own modules, out of the reach of user code
//	channel     the two pipes: frames out, a mailbox in
//	terminal    the output streams and their place in the terminal's byte stream
//	framed      the output streams where a terminal does not keep markers
//	interrupt   SIGINT, and which code it interrupts
//	atomic      system calls that survive asynchronous exceptions
//	standard    sys.stdin, input() and getpass(): the worker asks, the supervisor answers
//	cells       compile, run, and report one turn's code
//	loops       the event loop of inputs that await, and the context of all
//	frames      what user code sees of the stack: none of the worker's frames
//	hints       a line for inputs that are a shell's or a notebook's, and no Python
//	changes     modules of the user's whose files have changed since their import
//	display     the last expression's value, display(), and matplotlib
//	bundles     what a value offers for showing it, by MIME type
//	query       whether a text is a complete input, and what user code has defined
//	completion  how a text can go on
//	inspection  what is known about the thing at the cursor
//	functions   the module turnstone: the functions of the host
//	tools       the package turnstone.tools: functions in groups
//	calls       calls of them, from any thread
//	values      the values that calls carry
//	hooks       actions around fork, exec and spawn
//	imports     the worker's own imports, and changes to modules that user code imports
//	cache       the compiled code on disk
//	system      names that differ by system, from unix or windows
//
// The package starts no goroutines and keeps no state.
package python
