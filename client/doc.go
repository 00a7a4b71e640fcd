// Package client is the Go client of a daemon, the process of "repl serve". Sessions of a daemon
// outlive the clients that use them. Several clients can watch and drive them at the same time.
//
//	c, err := client.Dial(ctx, client.Socket(client.DefaultSocket(os.Getenv)))
//	...
//	defer c.Close()
//	_, err = c.CreateSession(ctx, protocol.CreateParams{Name: "main", Language: "python"})
//	reply, err := c.StartTurn(ctx, protocol.StartParams{Session: "main", Input: "6 * 7", WaitMS: 45_000})
//	fmt.Print(reply.Render(nil).Text())
//
// The messages to and from the daemon are the types of package client/protocol.
//
// A [Client] of [New] connects when it needs a connection, and repeats calls whose connection was
// lost. A Client of [Dial] has a single connection. Package client/remote reaches daemons
// elsewhere, and client/internal/conn is one connection, with its goroutines. The package knows no
// workers and no supervisor, because sessions run in the daemon.
//
// # Goroutines
//
//	name      started by      ends when                               owns
//	dialler   a Client        it has connected, or cannot             one attempt to connect
//	watcher   a Client        its connection ends                     the record of that end
//	flow      a Subscription  the daemon knows whether to send        a call to pause or resume
//	restorer  watcher         it has connected, or cannot             functions after a lost connection
//
// Client.Close waits for dialler, and for the goroutines of the connection. No method waits for the
// others. A subscription starts flow only when its backlog becomes full, or half empty again.
package client
