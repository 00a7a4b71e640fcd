package terminal

import (
	"io"
	"strings"
	"testing"
)

// script is a terminal that delivers one string at a time, and then an error.
type script struct {
	parts []string
	err   error
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.parts) == 0 {
		return 0, s.err
	}
	n := copy(p, s.parts[0])
	s.parts = s.parts[1:]
	return n, nil
}

// readAll returns what a line editor gets to see.
func readAll(t *testing.T, parts ...string) string {
	t.Helper()
	k := newKeyboard(func() { t.Error("an interrupt") }, func() { t.Error("a quit") }, func() { t.Error("a suspension") })
	k.edit(true)
	k.pump(&script{parts, io.ErrUnexpectedEOF})
	got, err := io.ReadAll(k)
	if err != io.ErrUnexpectedEOF {
		t.Fatalf("got error %v, want that of the terminal", err)
	}
	return string(got)
}

func TestKeyboard_PasteIsOneInputUpToItsLastLineEnd(t *testing.T) {
	const enter, tab = string(keyPastedEnter), string(keyPastedTab)
	tests := []struct{ name, typed, want string }{
		{"nothing pasted", "ab\r\t\x1b[A\x1a", "ab\r\t\x1b[A\x1a"},
		{"Ctrl-C gives up what is open above the line, and the line", "a\x03", "a\x07\x03"},
		{"a word", "\x1b[200~word\x1b[201~\r", "word\r"},
		{"lines", "\x1b[200~a\nb\nc\x1b[201~", "a" + enter + "b" + enter + "c"},
		{"a line end at the end is the Enter key", "\x1b[200~a\rb\r\x1b[201~", "a" + enter + "b\r"},
		{"empty lines", "\x1b[200~a\n\n\nb\x1b[201~", "a" + enter + enter + enter + "b"},
		{"Windows line ends", "\x1b[200~a\r\nb\r\n\x1b[201~", "a" + enter + "b\r"},
		{"a tab is text", "\x1b[200~\tx\x1b[201~\t", tab + "x\t"},
		{"keys are not pressed", "\x1b[200~a\x03\x04\x1b[A\x7fb\x1b[201~", "a[Ab"},
		{"characters of several bytes", "\x1b[200~äöü\n中\x1b[201~", "äöü" + enter + "中"},
		{"two pastes", "\x1b[200~a\n\x1b[201~\x1b[200~b\x1b[201~", "a\rb"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := readAll(t, test.typed); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
		t.Run(test.name+", byte by byte", func(t *testing.T) {
			var parts []string
			for i := range len(test.typed) {
				parts = append(parts, test.typed[i:i+1])
			}
			if got := readAll(t, parts...); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestKeyboard_CtrlCOutsideOfALineInterruptsAndDropsWhatWasTypedAhead(t *testing.T) {
	interrupts := 0
	k := newKeyboard(func() { interrupts++ }, func() { t.Error("a quit") }, nil)
	k.pump(&script{[]string{"ahead", "\x03more"}, io.ErrUnexpectedEOF})
	got, _ := io.ReadAll(k)
	if interrupts != 1 || string(got) != "more" {
		t.Errorf("got %d interrupts and %q, want 1 and what was typed after it", interrupts, got)
	}
}

func TestKeyboard_CtrlBackslashQuitsAtAnyTimeButInAPaste(t *testing.T) {
	for _, editing := range []bool{true, false} {
		quits := 0
		k := newKeyboard(func() { t.Error("an interrupt") }, func() { quits++ }, nil)
		k.edit(editing)
		k.pump(&script{[]string{"\x1b[200~a\x1c\x03b\x1b[201~"}, io.ErrUnexpectedEOF})
		if quits != 0 {
			t.Errorf("editing %v: a paste has quit", editing)
		}
		k.pump(&script{[]string{"\x1c"}, io.ErrUnexpectedEOF})
		if quits != 1 {
			t.Errorf("editing %v: got %d quits, want 1", editing, quits)
		}
	}
}

func TestKeyboard_TypeAheadIsBounded(t *testing.T) {
	k := newKeyboard(nil, nil, nil)
	k.pump(strings.NewReader(strings.Repeat("x", maxTypeAhead) + "y"))
	got, _ := io.ReadAll(k)
	if len(got) != maxTypeAhead || strings.Contains(string(got), "y") {
		t.Errorf("got %d bytes, want the first %d", len(got), maxTypeAhead)
	}
}

func TestKeyboard_WhatTheProgramPutsInNeedsNoKeyAndComesFirst(t *testing.T) {
	k := newKeyboard(nil, nil, nil)
	b := make([]byte, 8)
	go k.put("now") // nobody types
	if n, err := k.Read(b); err != nil || string(b[:n]) != "now" {
		t.Errorf("got %q, %v, want \"now\"", b[:n], err)
	}
	k.decode([]byte("later"))
	k.put("now ")
	k.end(io.EOF)
	if got, err := io.ReadAll(k); err != nil || string(got) != "now later" {
		t.Errorf("got %q, %v, want \"now later\"", got, err)
	}
}
