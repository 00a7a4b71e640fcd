// Package python starts Python workers: it finds the interpreter a person would
// expect ([Find]) and describes how to start it ([Spec]).
//
// The worker itself is Python source, embedded from src: the standard library
// only, CPython 3.8 and newer, one thread, nothing to install. src/boot.py is
// started from the session's private directory and loads the modules in
// src/turnstone_worker from there, or from a cache of their compiled code.
//
//	codec      MessagePack and the five messages a worker may receive
//	atomic     system calls that survive asynchronous exceptions
//	channel    the two pipes: frames out, a mailbox in
//	terminal   the output streams and their place in the terminal's byte stream
//	interrupt  SIGINT, and which code it interrupts
//	standard   sys.stdin, input() and getpass(): the worker asks, the supervisor answers
//	cells      compile, run, and report one turn's code
//	display    the last expression's value, pictures and matplotlib
//	hooks      actions around fork, exec, and certain imports
//	query      completion, and whether a text is a complete input
//	imports    the worker's own imports, and changes to modules that user code imports
//	cache      the compiled code on disk
//	main       the life of a worker
//
// The package starts no goroutines and keeps no state.
package python
