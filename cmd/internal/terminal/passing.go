package terminal

import (
	"bytes"
	"errors"
)

// errNotTaken is the error of a program that does not take keys any more.
var errNotTaken = errors.New("terminal: no program takes keys")

// give gives the keys to a program, beginning with those that nobody has read; nil takes them back.
func (k *keyboard) give(program func([]byte) error) {
	k.passing.Lock()
	defer k.passing.Unlock()
	k.program, k.quits = program, 0
	if program == nil {
		return
	}
	k.mu.Lock()
	early := k.drop()
	k.mu.Unlock()
	if len(early) > 0 {
		_ = program(early)
	}
}

// pass gives b to the program that has the keys, and returns what is left for us. Two keys stay
// ours: Ctrl-Z suspends, and Ctrl-\ takes the keys back when it is pressed a second time in a
// row.
func (k *keyboard) pass(b []byte) (rest []byte) {
	for len(b) > 0 {
		n := bytes.IndexAny(b, string([]byte{ctrlZ, ctrlBackslash}))
		if n < 0 {
			n = len(b)
		}
		if !k.passOn(b[:max(n, 1)]) {
			return b
		}
		b = b[max(n, 1):]
	}
	return nil
}

// passOn passes on one of the two keys, or any number of others. It reports false if no program
// takes them.
func (k *keyboard) passOn(b []byte) bool {
	k.passing.Lock()
	if k.program == nil {
		k.passing.Unlock()
		return false
	}
	quits := 0
	if b[0] == ctrlBackslash {
		quits = k.quits + 1
	}
	k.quits = quits
	then := func() {}
	var err error
	switch {
	case b[0] == ctrlZ && k.suspend != nil:
		then = k.suspend
	case quits == 2:
		k.program, then = nil, k.recall
	default:
		err = k.program(b)
	}
	k.passing.Unlock()
	then()
	return !errors.Is(err, errNotTaken)
}
