// Package python holds what a program that embeds the supervisor may rely on
// when it opens a Python session. Everything here goes through the public API,
// the real stage and a real interpreter; nothing looks at a frame.
//
// The tests are for Linux, where everything is promised: who reads the terminal
// is seen there, and nowhere else.
//
// TURNSTONE_ALL_PYTHONS=1 runs them over every Python 3.8 and newer that pyenv
// has, and TURNSTONE_ROUNDS=n makes races and orders n times as long.
package python
