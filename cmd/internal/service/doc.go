// Package service makes repl serve a service of the user's: a socket and a service
// of systemd's, or an agent of launchd's. It writes their files, and has the manager
// read them; it starts no goroutine.
package service
