// Package openbrowser opens a link in the user's browser without showing it to other users. It does
// not know where the link leads, or whether the browser has shown it. It starts a program for this,
// and a goroutine that ends with that program. Nothing waits for the goroutine, because a browser
// may outlive the command.
package openbrowser
