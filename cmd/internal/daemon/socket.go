package daemon

import "errors"

// ErrServed means that another daemon serves the socket.
var ErrServed = errors.New("daemon: the socket is served already")
