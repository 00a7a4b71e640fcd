// Package comms converts the comms of a session to Jupyter's messages, for front ends of notebooks.
//
// The session keeps the states. A front end has a cursor into their changes, as it has one into the
// timeline. A front end that is slow gets the newest values, and skips those in between. Nothing is
// queued, so a program that changes a state all the time costs no memory.
//
// Messages of front ends do not reach the code. There is one exception, which needs no code: on the comm
// of the target jupyter.widget.control, a front end that connects late asks for all states.
package comms
