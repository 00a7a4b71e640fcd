package ttymode

import (
	"errors"
	"io"
	"testing"
	"unicode/utf16"
)

func TestConsoleReader(t *testing.T) {
	smile := utf16.Encode([]rune("😀"))
	for name, test := range map[string]struct {
		reads [][]uint16
		want  string
	}{
		"letters":               {[][]uint16{utf16.Encode([]rune("aü€"))}, "aü€"},
		"Ctrl-Z is a key":       {[][]uint16{{'a'}, {0x1a}, {'b'}}, "a\x1ab"},
		"nothing is a Ctrl-C":   {[][]uint16{{'a'}, {}, {'b'}}, "a\x03b"},
		"two units at once":     {[][]uint16{smile}, "😀"},
		"two units, one by one": {[][]uint16{{'a', smile[0]}, {smile[1], 'b'}}, "a😀b"},
		"half of one":           {[][]uint16{{smile[0]}, {'b'}}, "\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &consoleReader{read: func(units []uint16) (int, error) {
				if len(test.reads) == 0 {
					return 0, io.EOF
				}
				n := copy(units, test.reads[0])
				test.reads = test.reads[1:]
				return n, nil
			}}
			var got []byte
			for {
				p := make([]byte, 16)
				n, err := c.Read(p)
				got = append(got, p[:n]...)
				if errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if string(got) != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
