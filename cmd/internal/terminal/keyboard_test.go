package terminal

import (
	"io"
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

// readAll is what a line editor gets to see.
func readAll(t *testing.T, parts ...string) string {
	t.Helper()
	k := newKeyboard(&script{parts, io.ErrUnexpectedEOF})
	t.Cleanup(k.close)
	got, err := io.ReadAll(k)
	if err != io.ErrUnexpectedEOF {
		t.Fatalf("got error %v, want that of the terminal", err)
	}
	return string(got)
}

func TestKeyboard_PasteIsOneInputUpToItsLastLineEnd(t *testing.T) {
	const enter, tab = string(keyPastedEnter), string(keyPastedTab)
	tests := []struct{ name, typed, want string }{
		{"nothing pasted", "ab\r\t\x1b[A\x03", "ab\r\t\x1b[A\x03"},
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

// A read that is under way when its line was cancelled ends in the terminal's
// normal mode, where Ctrl-D is an end of file. It is not the terminal's end.
func TestKeyboard_EndOfFileOutsideOfALineIsNobodys(t *testing.T) {
	in, typed := io.Pipe()
	k := newKeyboard(&afterEOF{first: make(chan struct{}), then: in})
	t.Cleanup(k.close)
	go typed.Write([]byte("x"))
	b := make([]byte, 8)
	n, err := k.Read(b)
	if err != nil || string(b[:n]) != "x" {
		t.Errorf("got %q, %v, want what was typed after the end of file", b[:n], err)
	}
}

// afterEOF is at its end once, and then goes on, as a terminal does.
type afterEOF struct {
	first chan struct{}
	then  io.Reader
}

func (a *afterEOF) Read(p []byte) (int, error) {
	select {
	case <-a.first:
		return a.then.Read(p)
	default:
		close(a.first)
		return 0, io.EOF
	}
}

func TestKeyboard_EndOfFileInALineIsTheTerminals(t *testing.T) {
	k := newKeyboard(&script{nil, io.EOF})
	t.Cleanup(k.close)
	k.editing.Store(true)
	if _, err := k.Read(make([]byte, 8)); err != io.EOF {
		t.Errorf("got %v, want %v", err, io.EOF)
	}
}

func TestKeyboard_WhatTheProgramPutsInNeedsNoKey(t *testing.T) {
	in, _ := io.Pipe() // nobody types
	k := newKeyboard(in)
	t.Cleanup(func() { k.close(); in.Close() })
	go k.put("now")
	b := make([]byte, 8)
	n, err := k.Read(b)
	if err != nil || string(b[:n]) != "now" {
		t.Errorf("got %q, %v, want \"now\"", b[:n], err)
	}
}
