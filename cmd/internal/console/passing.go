package console

import (
	"bytes"
	"errors"
)

// errNoProgram means that the program no longer takes keys.
var errNoProgram = errors.New("console: no program takes keys")

// setProgram gives the keys to a program, starting with the unread ones; nil takes them back.
func (k *keyReader) setProgram(program func([]byte) error) {
	k.passMu.Lock()
	defer k.passMu.Unlock()
	k.program, k.quitPresses = program, 0
	if program == nil {
		return
	}
	k.mu.Lock()
	early := k.takeTyped()
	k.mu.Unlock()
	if len(early) > 0 {
		_ = program(early)
	}
}

// passKeys gives b to the program that has the keys, and returns the bytes that the program does
// not take. Two keys are handled here: Ctrl-Z suspends, and a second Ctrl-\ in a row takes the keys
// back.
func (k *keyReader) passKeys(b []byte) (rest []byte) {
	for len(b) > 0 {
		n := bytes.IndexAny(b, string([]byte{ctrlZ, ctrlBackslash}))
		if n < 0 {
			n = len(b)
		}
		if !k.sendKeys(b[:max(n, 1)]) {
			return b
		}
		b = b[max(n, 1):]
	}
	return nil
}

// sendKeys handles Ctrl-Z or Ctrl-\, or passes on any number of other keys. It returns false if no
// program takes them.
func (k *keyReader) sendKeys(b []byte) bool {
	k.passMu.Lock()
	if k.program == nil {
		k.passMu.Unlock()
		return false
	}
	quits := 0
	if b[0] == ctrlBackslash {
		quits = k.quitPresses + 1
	}
	k.quitPresses = quits
	then := func() {}
	var err error
	switch {
	case b[0] == ctrlZ && k.suspend != nil:
		then = k.suspend
	case quits == 2:
		k.program, then = nil, k.reclaim
	default:
		err = k.program(b)
	}
	k.passMu.Unlock()
	then()
	return !errors.Is(err, errNoProgram)
}
