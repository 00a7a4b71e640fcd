package host

import "errors"

// ErrWoken is what a Read that Wake ended returns.
var ErrWoken = errors.New("host: the read was woken")

// Wake ends the Read in progress, or the next one, with ErrWoken. Bytes are
// never lost by it.
func (t *Terminal) Wake() {
	if w, ok := t.tty.(interface{ wake() }); ok {
		w.wake()
	}
}
