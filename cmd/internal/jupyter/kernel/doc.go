// Package kernel implements a Jupyter kernel whose code runs in a session. Notebooks, consoles and
// nbclient connect to it. It speaks "Messaging in Jupyter" 5.4
// (https://jupyter-client.readthedocs.io/en/stable/messaging.html).
//
// The kernel is a client of the session, which survives the end of the kernel's process. Other
// clients may use the session at the same time. The turns that they start appear on the iopub
// channel with made-up parents.
//
// A peer on the iopub channel has a cursor into the session's timeline and no queue of outputs. So
// a peer that sleeps costs nothing and misses no output. In addition it has a short queue of
// messages that are not in a timeline, such as the status of other requests. When the queue has
// more than maxQueuedMessages, the oldest are dropped.
//
// Bounds: maxQueued requests wait to be executed, and a peer that sends more is disconnected. The
// history has the last maxHistory turns. Text is sent after 100 ms, or when there are 64 KiB of it.
//
// Goroutines: package zmtp has some for each connection, of which those on the iopub channel send.
// For each connection on the iopub channel, one goroutine reads subscriptions and one reads the
// timeline. One follows the session for all peers, one executes requests in order, one handles
// signals, and one watches the parent process. Run ends them.
//
// # Replies to failed requests
//
// JupyterLab's "Run All" sends cells some milliseconds apart, and expects the rest to be aborted
// after an error. A kernel that answered immediately ran them: 15 of 16 cells ran after the first
// failed. So the reply to a failed execute request waits until 50 ms have passed without another
// request, for 1 s at most. Requests that are queued by then are aborted. Later requests are
// aborted as well if their client created them before the reply, according to its own dates.
//
// Aborting all requests for a period after the reply was rejected, because it would hit the next
// request of a quick client. Comparing the client's clock with ours was rejected, because a browser
// may be on another machine, whose clock differs.
//
// # Locks
//
// attachedSession.submitMu is held during the start of a turn, and attachedSession.mu and
// requestQueue.mu may be taken under it. Every other lock may be held while subscriber.mu is taken.
package kernel
