// Package daemoncmd has the commands that run and control a daemon: repl serve, repl service and
// repl daemon. Package daemon implements the daemon.
//
// # Goroutines
//
//	name     started by    ends when          owns
//	metrics  serveMetrics  its end is called  the HTTP server of --metrics
package daemoncmd
