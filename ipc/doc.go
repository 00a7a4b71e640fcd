// Package ipc is the worker protocol: its messages, their encoding as frames,
// and the connection that carries them. docs/worker-protocol.md describes it for
// workers in any language, schema.json for programs.
//
// The package checks each frame separately, never the order of frames or their effect on a
// turn. It does not create the channel either: the caller passes an open one.
//
//	conn := ipc.NewConn(channel, ipc.FromWorker)
//	defer conn.Close()
//	if err := conn.Send(ipc.TurnStart{Turn: 1, Input: []byte("1+1")}); err != nil { … }
//	m, err := conn.Receive()
//	switch m := m.(type) { case ipc.Idle: … }
//
// # Goroutines
//
//	name     started by   ends when         owns
//	writer   NewConn      Close is called   writing what Send could not write immediately
//
// Close waits for the writer. Receive runs in the caller's goroutine.
//
// # Units
//
// Sizes are bytes. A turn, wait, seq, mark or id is an ordinal of its own kind; message.go says
// where each begins to count.
//
// # Locks
//
// roomMu may be held when Conn.mu is taken. It is held while a large message waits for room.
package ipc
