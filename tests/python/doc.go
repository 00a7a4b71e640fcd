// Package python holds what a program that embeds the supervisor may rely on
// when it opens a Python session. Everything here goes through the public API,
// the real stage and a real interpreter; nothing looks at a frame.
//
// Everything is promised on Linux, where it is seen who reads the terminal. On
// Windows, those tests run that are not about children and readers of the
// terminal.
//
// TURNSTONE_ALL_PYTHONS=1 runs them over every Python 3.8 and newer that is
// there, and TURNSTONE_ROUNDS=n makes races and orders n times as long.
package python
