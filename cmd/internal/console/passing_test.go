package console

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// A fakeProgram is a program that takes the keys and records them.
type fakeProgram struct {
	got   []string
	ended bool
}

func (p *fakeProgram) receiveKeys(b []byte) error {
	if p.ended {
		return errNoProgram
	}
	p.got = append(p.got, string(b))
	return nil
}

func TestPassKeys(t *testing.T) {
	t.Run("sends all keys except the reserved ones to the program", func(t *testing.T) {
		for name, test := range map[string]struct {
			typed              []string
			want               string
			suspended, recalls int
			rest               string
		}{
			"keys":                       {[]string{"a\r\x03\x04\x1b[200~b\x1b[201~"}, "a\r\x03\x04\x1b[200~b\x1b[201~", 0, 0, ""},
			"Ctrl-Z":                     {[]string{"a\x1ab"}, "ab", 1, 0, ""},
			"one Ctrl-\\":                {[]string{"\x1ca"}, "\x1ca", 0, 0, ""},
			"not in a row":               {[]string{"\x1ca\x1c", "b\x1c"}, "\x1ca\x1cb\x1c", 0, 0, ""},
			"two Ctrl-\\":                {[]string{"a\x1c", "\x1cb"}, "a\x1c", 0, 1, "b"},
			"a suspension in between":    {[]string{"\x1c\x1a\x1c"}, "\x1c\x1c", 1, 0, ""},
			"what was typed ahead of it": {nil, "ahead", 0, 0, ""},
		} {
			t.Run(name, func(t *testing.T) {
				suspensions, recalls := 0, 0
				k := newKeyReader(func() { t.Error("an interrupt") }, func() { t.Error("a quit") }, func() { suspensions++ })
				k.reclaim = func() { recalls++ }
				want := test.want
				if test.typed == nil {
					k.decodeInput([]byte("ahead"))
				}
				var p fakeProgram
				k.setProgram(p.receiveKeys)
				k.pumpInput(&scriptReader{slices.Clone(test.typed), io.EOF})
				if got := strings.Join(p.got, ""); got != want || suspensions != test.suspended || recalls != test.recalls {
					t.Errorf("got %q, %d suspensions, %d recalls", got, suspensions, recalls)
				}
				if got := readRest(k); got != test.rest {
					t.Errorf("got %q for repl, want %q", got, test.rest)
				}
			})
		}
	})

	t.Run("keys that come too late for the program never become code", func(t *testing.T) {
		interrupts := 0
		k := newKeyReader(func() { interrupts++ }, nil, nil)
		k.setProgram((&fakeProgram{ended: true}).receiveKeys)
		k.decodeInput(k.passKeys([]byte("jq\rlost\x03 rm -r")))
		k.setProgram(nil)
		if interrupts != 1 {
			t.Errorf("%d interrupts, want that of Ctrl-C", interrupts)
		}
		k.decodeInput(k.passKeys([]byte(" x\rnext input")))
		line, _ := k.lineAfter(0)
		if _, marked := k.markOfLine(line.begin, line.end); string(line.keys) != " x" || !marked {
			t.Errorf("got the line %q, marked: %t", line.keys, marked)
		}
		line, _ = k.lineAfter(line.end)
		if _, marked := k.markOfLine(line.begin, line.end); string(line.keys) != "next input" || marked {
			t.Errorf("got the line %q, marked: %t", line.keys, marked)
		}
		var next fakeProgram
		k.setProgram(next.receiveKeys)
		if got := strings.Join(next.got, ""); got != " rm -r x\rnext input" {
			t.Errorf("the next program got %q", got)
		}
	})

	t.Run("drops keys that a program does not read", func(t *testing.T) {
		k := newKeyReader(nil, nil, nil)
		k.setProgram(func([]byte) error { return errors.New("the program does not read") })
		k.pumpInput(&scriptReader{[]string{"lost"}, io.EOF})
		if got := readRest(k); got != "" {
			t.Errorf("got %q, want nothing: the keys were meant for the program", got)
		}
	})
}
