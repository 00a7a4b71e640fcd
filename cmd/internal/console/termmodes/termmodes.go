// Package termmodes tracks the modes that programs leave on in a terminal. It reads their output and
// writes the sequences that switch the modes off and on again. It opens no terminal and starts no
// goroutines.
package termmodes

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// modeDefaults are the private modes of a terminal that a program may leave on, with their initial
// state. They are cursor keys, the cursor itself, the mouse, the alternate screen and pastes.
var modeDefaults = map[int]bool{
	1: false, 7: true, 9: false, 25: true, 47: false, 1000: false, 1002: false, 1003: false, 1004: false, 1005: false,
	1006: false, 1015: false, 1047: false, 1049: false, 2026: false,
}

// maxPartialSequence bounds the stored start of a control sequence whose rest has not arrived.
const maxPartialSequence = 64

// maxKeyboardFlags bounds the count of pushed keyboard flags. Terminals store fewer.
const maxKeyboardFlags = 16

// ModeTracker tracks the modes that programs have switched on in a terminal. No other modes may
// be switched off: ending an alternate screen that never started, for instance, moves the cursor.
type ModeTracker struct {
	changed         map[int]bool // modes that differ from their default
	keypad          bool         // the keypad sends sequences
	hasStyle        bool         // text has a colour or another style
	modifyOtherKeys bool         // xterm's modifyOtherKeys is on
	keyboardFlags   int          // how often a program has pushed kitty's keyboard flags

	SawAlternateScreen bool   // a program has used an alternate screen; the reader of this field resets it
	partial            []byte // the start of a control sequence
}

// ScanOutput looks for control sequences in output.
func (m *ModeTracker) ScanOutput(b []byte) {
	if len(m.partial) > 0 {
		b = append(m.partial, b...)
		m.partial = nil
	}
	for {
		i := bytes.IndexByte(b, '\x1b')
		if i < 0 {
			return
		}
		b = b[i+1:]
		end := 0
		switch {
		case len(b) == 0:
		case b[0] == '=' || b[0] == '>':
			m.keypad = b[0] == '='
			continue
		case b[0] != '[':
			continue
		default:
			end = bytes.IndexFunc(b[1:], func(r rune) bool { return r < ' ' || r >= '@' }) + 1
		}
		if end <= 0 || end >= len(b) {
			if len(b) < maxPartialSequence {
				m.partial = append([]byte{'\x1b'}, b...)
			}
			return
		}
		m.applySequence(string(b[1:end]), b[end])
		b = b[end+1:]
	}
}

// applySequence records one control sequence by its parameters and its last byte.
func (m *ModeTracker) applySequence(parameters string, final byte) {
	if final == 'm' && !strings.ContainsAny(parameters, "<>?") {
		m.hasStyle = strings.Trim(parameters, "0;") != ""
		return
	}
	switch {
	case final == 'm' && strings.HasPrefix(parameters, ">4"):
		m.modifyOtherKeys = parameters != ">4" && parameters != ">4;" && parameters != ">4;0"
	case final == 'u' && strings.HasPrefix(parameters, ">"):
		m.keyboardFlags = min(m.keyboardFlags+1, maxKeyboardFlags)
	case final == 'u' && strings.HasPrefix(parameters, "<"):
		n, _ := strconv.Atoi(parameters[1:])
		m.keyboardFlags = max(0, m.keyboardFlags-max(n, 1))
	}
	list, private := strings.CutPrefix(parameters, "?")
	if !private || final != 'h' && final != 'l' {
		return
	}
	for number := range strings.SplitSeq(list, ";") {
		mode, err := strconv.Atoi(number)
		before, known := modeDefaults[mode]
		if err != nil || !known {
			continue
		}
		m.SawAlternateScreen = m.SawAlternateScreen || mode == 47 || mode == 1047 || mode == 1049
		if m.changed == nil {
			m.changed = make(map[int]bool)
		}
		if m.changed[mode] = (final == 'h') != before; !m.changed[mode] {
			delete(m.changed, mode)
		}
	}
}

// EnableSequence returns the sequence that restores the modes that ResetSequence switches off, except colours.
func (m *ModeTracker) EnableSequence() string {
	var b strings.Builder
	for _, mode := range slices.Sorted(maps.Keys(m.changed)) {
		final := 'h'
		if modeDefaults[mode] {
			final = 'l'
		}
		fmt.Fprintf(&b, "\x1b[?%d%c", mode, final)
	}
	if m.keypad {
		b.WriteString("\x1b=")
	}
	if m.modifyOtherKeys {
		b.WriteString("\x1b[>4;2m")
	}
	return b.String()
}

// ResetSequence returns the sequence that resets the terminal, without colours unless all is set.
func (m *ModeTracker) ResetSequence(all bool) string {
	var b strings.Builder
	left := slices.Sorted(maps.Keys(m.changed))
	slices.Reverse(left) // the alternate screen has its own cursor
	for _, mode := range left {
		final := 'l'
		if modeDefaults[mode] {
			final = 'h'
		}
		fmt.Fprintf(&b, "\x1b[?%d%c", mode, final)
	}
	if m.keypad {
		b.WriteString("\x1b>")
	}
	if m.modifyOtherKeys {
		b.WriteString("\x1b[>4;0m")
	}
	if m.keyboardFlags > 0 {
		fmt.Fprintf(&b, "\x1b[<%du", m.keyboardFlags)
	}
	if m.hasStyle && all {
		b.WriteString("\x1b[0m")
		m.hasStyle = false
	}
	m.changed, m.keypad, m.modifyOtherKeys, m.keyboardFlags = nil, false, false, 0
	return b.String()
}
