// Package openbrowser opens a link in the user's browser without showing it to other users. It does not
// know what the link leads to, nor whether the browser has shown it. The program
// that it starts for this is waited for by a goroutine, which ends with that program and is not waited
// for itself: a browser may outlive the command.
package openbrowser
