// Package reply turns events of a session into the content that a model reads: text within the
// client's budget, images that it can see, and one line about the state. It also paces the progress
// that precedes a reply.
//
// Render takes a CallState by value, and knows nothing about the call or the session behind it, except
// that it may read the screen. It has two effects. It writes images that it changes or leaves out to
// files of an ImageStore, and runs the program rsvg-convert to turn drawings into images. The package
// starts no goroutines.
//
// # Locks
//
// ImageStore.mu is held while a file is written.
package reply
