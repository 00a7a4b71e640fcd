// Package remote makes a session of a daemon's look like one of this process's
// own, for the front ends: the methods are the supervisor's, the errors too, and
// what they do happens over there.
//
// It has no goroutines but those of package client.
package remote
