// Package openbrowser opens a link in the user's browser without showing it to other users. It does
// not check the link, and does not notice whether the browser has shown it. A goroutine waits for
// the program that opens the browser, and ends with that program. Nothing waits for this goroutine,
// because a browser may outlive the command.
package openbrowser
