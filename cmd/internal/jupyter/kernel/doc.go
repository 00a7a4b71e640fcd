// Package kernel is a Jupyter kernel whose code runs in a session: what a notebook, a console or
// nbclient talks to. It speaks "Messaging in Jupyter" 5.4
// (https://jupyter-client.readthedocs.io/en/stable/messaging.html).
//
// The kernel is a client of the session and nothing else. The session lives on when the kernel's
// process dies, and others may use it meanwhile: the turns that they start appear on the iopub
// channel with parents of their own.
//
// A peer on the iopub channel has a cursor into the session's timeline and no queue of outputs: a
// peer that sleeps costs nothing and misses nothing. Beside it there is a short list of messages
// that no timeline has, such as the status of other requests: up to maxQueuedMessages, of which the oldest
// are dropped.
//
// Bounds: maxQueued requests wait to be executed; a peer that sends more is left. History is that
// of the last maxHistory turns. Text is sent after 100 ms, or when there are 64 KiB of it.
//
// Goroutines: zsock's for each connection, of which those on the iopub channel send; for each of
// these one that reads subscriptions and one that reads the timeline; one that follows the session
// for all; one that executes requests in order; one that watches the parent process. Run ends them.
package kernel
