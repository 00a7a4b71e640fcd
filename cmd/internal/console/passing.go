package console

import (
	"bytes"
	"errors"
)

// errNoProgram means that the program no longer takes keys.
var errNoProgram = errors.New("console: no program takes keys")

// setProgram gives the keys to a program, starting with the unread ones; nil takes them back. A line
// that came too late for a program is marked, so that its rest does not become code.
func (k *keyReader) setProgram(program func([]byte) error) {
	k.passMu.Lock()
	defer k.passMu.Unlock()
	k.program, k.quitPresses = program, 0
	if program == nil {
		k.markLateLine()
		return
	}
	k.mu.Lock()
	early := append(k.lateKeys, k.takeTyped()...)
	k.mu.Unlock()
	k.lateKeys = nil
	if len(early) > 0 {
		_ = program(early)
	}
}

// markLateLine marks the line whose beginning came too late for a program. The caller holds passMu.
func (k *keyReader) markLateLine() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.lateKeys); n > 0 && k.lateKeys[n-1] != '\r' && k.lateKeys[n-1] != '\n' {
		at := k.readCount + len(k.typed)
		k.markTypedLocked(programMark{from: at, to: at + 1})
	}
}

// dropLateKeys drops the keys that a program has not taken, because something else reads keys now.
func (k *keyReader) dropLateKeys() {
	k.passMu.Lock()
	defer k.passMu.Unlock()
	k.lateKeys = nil
}

// holdLateKeys keeps keys that came when the program no longer took them, although nothing has
// taken the keys back yet. They are for the next program, such as the shell that started this one,
// and never for the editor. The caller holds passMu.
func (k *keyReader) holdLateKeys(b []byte) (interrupted bool) {
	if i := bytes.LastIndexByte(b, ctrlC); i >= 0 {
		k.lateKeys, b, interrupted = nil, b[i+1:], true
	}
	k.lateKeys = append(k.lateKeys, b[:min(len(b), maxTypeAhead-len(k.lateKeys))]...)
	return interrupted
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
	switch {
	case b[0] == ctrlZ && k.suspend != nil:
		then = k.suspend
	case quits == 2:
		k.program, then = nil, k.reclaim
	default:
		if errors.Is(k.program(b), errNoProgram) && b[0] != ctrlBackslash && k.holdLateKeys(b) {
			then = k.interrupt
		}
	}
	k.passMu.Unlock()
	then()
	return true
}
