// Package ipc implements the worker protocol: its messages, their encoding as frames, and the
// connection that carries them. docs/worker-protocol.md describes the protocol for workers in any
// language, and schema.json for programs.
//
// The package checks each frame separately. It checks neither the order of frames nor their effect
// on a turn. The caller creates the channel and passes it when it is open.
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
// Sizes are bytes. Each turn, wait, seq, mark and id is an ordinal, counted separately for its
// kind. message.go gives the first number of each.
//
// # Locks
//
// roomMu may be held while Conn.mu is taken. It is held while a large message waits for room.
package ipc
