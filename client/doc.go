// Package client talks to a daemon that "repl serve" runs: sessions outlive the clients that
// use them, and several clients watch and drive them at the same time.
//
//	c, err := client.Dial(ctx, client.Socket(client.DefaultSocket(os.Getenv)))
//	...
//	defer c.Close()
//	session, err := c.CreateSession(ctx, client.CreateParams{Name: "main", Language: "python"})
//	reply, err := c.StartTurn(ctx, client.StartParams{Session: "main", Input: "6 * 7", WaitMS: 45_000})
//	fmt.Print(reply.Render(nil).Text())
//
// The types with JSON tags are the messages on the wire, which docs/daemon.md describes; the
// daemon uses the same types.
//
// # Goroutines
//
//	name    started by  ends when            owns
//	reader  Dial        the connection ends  answers and notifications
//	writer  Dial        the connection ends  what is sent
//	dialler a Client    it has connected, or cannot      one attempt to connect
//	watcher a Client    its connection ends              noting that
//
// Close waits for the first three. A subscription has no goroutine of its own.
package client
