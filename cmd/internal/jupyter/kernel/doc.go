// Package kernel implements a Jupyter kernel whose code runs in a session. Notebooks, consoles and
// nbclient connect to it. It speaks "Messaging in Jupyter" 5.4
// (https://jupyter-client.readthedocs.io/en/stable/messaging.html).
//
// The kernel is just a client of the session. The session survives the end of the kernel's process.
// Other clients may use it at the same time; the turns that they start appear on the iopub channel
// with made-up parents.
//
// A peer on the iopub channel has a cursor into the session's timeline and no queue of outputs. So a
// peer that sleeps costs nothing and misses nothing. In addition it has a short queue of messages that
// are not in a timeline, such as the status of other requests. The queue has up to maxQueuedMessages, of
// which the oldest are dropped.
//
// Bounds: maxQueued requests wait to be executed; a peer that sends more is disconnected. The history
// has the last maxHistory turns. Text is sent after 100 ms, or when there are 64 KiB of it.
//
// Goroutines: those of package zmtp for each connection, of which the ones on the iopub channel send.
// For each connection on the iopub channel, one reads subscriptions and one reads the timeline. One
// follows the session for all peers, one executes requests in order, one handles signals, and one
// watches the parent process. Run ends them.
//
// # Replies to failed requests
//
// JupyterLab's "Run All" sends cells some milliseconds apart, and expects the rest to be aborted
// after an error. A kernel that answers faster runs them: 15 of 16 cells ran after the first
// failed. So the reply to a failed execute request waits until 50 ms have passed without another
// one, for 1 s at most. Requests that are queued by then are aborted. So are later ones that their
// client created before the reply, by its own dates. A period after the reply in which requests are
// aborted was rejected, because it would take the next request of a quick client. Comparing the
// client's clock with ours was rejected: a browser's clock is another machine's.
//
// # Locks
//
// attachedSession.submitMu is held over the start of a turn, and attachedSession.mu and requestQueue.mu may
// be taken under it. Every other lock may be held when subscriber.mu is taken.
package kernel
