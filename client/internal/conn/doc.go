// Package conn implements one connection to a daemon. It says hello, makes calls, notices a daemon
// that is gone or stuck, and passes notifications to their subscriptions. It never reconnects:
// package client does that, with another Conn. It does not know what the calls are about.
//
// # Goroutines
//
//	name    started by  ends when            owns
//	reader  New         the connection ends  answers and notifications
//	writer  New         the connection ends  what is sent
//	hello   SayHello    it is answered       the answer to a hello that was not waited for
//	request the reader  OnRequest returns    the answer to a request of the daemon
//
// Close waits for reader and writer. The end of the connection also ends hello,
// and the contexts of requests. OnNotification is
// called in reader.
//
// # Locks
//
// Conn.mu is held while a Receiver is called, one call at a time. Receivers take their own lock.
package conn
