// Package osservice installs repl serve as a service of the user: a socket and a service of
// systemd, or an agent of launchd. It writes their files and makes the service manager read them.
// It starts no goroutines.
package osservice
