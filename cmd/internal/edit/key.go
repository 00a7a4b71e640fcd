package edit

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// A Key is one press of a key, or one paste.
type Key struct {
	// Name is "" for a character. "C-", "M-" and "S-" stand for Ctrl, Alt and Shift, in
	// this order: "C-a", "M-b", "Up", "C-Left". "Paste" is text from the clipboard.
	Name string
	Text string // the character, or all of the paste
}

// A Source delivers the characters that a terminal sends. A paste stands between PasteBegins
// and PasteEnds, has no other control characters but tabs and newlines, and is ended.
type Source interface {
	// Rune returns the next character. If patience is not 0 and none comes in this time, it
	// returns ErrQuiet.
	Rune(patience time.Duration) (rune, error)
}

// ErrQuiet means that no key was pressed for some time.
var ErrQuiet = errors.New("edit: no key was pressed")

// The markers of a terminal around a paste.
const (
	PasteBegins = "\x1b[200~"
	PasteEnds   = "\x1b[201~"
)

// escapeTime is the longest time between the bytes of one key. It tells the Escape key from
// others that begin with the same byte.
const escapeTime = 50 * time.Millisecond

// maxSequence bounds the bytes of one key.
const maxSequence = 32

// ReadKey reads the next key. alone says that the Escape key itself has a meaning now;
// otherwise it is Alt for the key after it, which readline calls Meta.
func ReadKey(s Source, alone bool) (Key, error) {
	r, err := s.Rune(0)
	if err != nil || r != '\x1b' {
		return plainKey(r), err
	}
	var patience time.Duration
	if alone {
		patience = escapeTime
	}
	switch r, err = s.Rune(patience); {
	case errors.Is(err, ErrQuiet):
		return Key{Name: "Esc"}, nil
	case err != nil:
		return Key{}, err
	case r == '[':
		return readSequence(s)
	case r == 'O':
		r, err = s.Rune(0)
		return Key{Name: finalKeys[r]}, err
	case r == '\x1b':
		return Key{Name: "Esc"}, nil
	}
	k := plainKey(r)
	switch k.Name {
	case "C-c": // gives up whatever was begun
		return k, nil
	case "":
		return Key{Name: "M-" + k.Text}, nil
	}
	return Key{Name: withModifiers(k.Name, 2)}, nil
}

// plainKey returns the key of one character.
func plainKey(r rune) Key {
	switch {
	case r == '\r' || r == '\n':
		return Key{Name: "Enter"}
	case r == '\t':
		return Key{Name: "Tab"}
	case r == '\x7f' || r == '\b':
		return Key{Name: "Backspace"}
	case r == '\x1b':
		return Key{Name: "Esc"}
	case r == 0:
		return Key{Name: "C-@"}
	case r <= 26:
		return Key{Name: "C-" + string('a'+r-1)}
	case r < ' ':
		return Key{Name: "C-" + string('@'+r)}
	}
	return Key{Text: string(r)}
}

// finalKeys are the keys by the last character of their sequence, numberedKeys those by the
// number before a "~", as xterm and the terminals like it send them.
var (
	finalKeys = map[rune]string{
		'A': "Up", 'B': "Down", 'C': "Right", 'D': "Left", 'H': "Home", 'F': "End", 'M': "Enter", 'Z': "S-Tab",
	}
	numberedKeys = map[int]string{
		1: "Home", 2: "Insert", 3: "Delete", 4: "End", 5: "PageUp", 6: "PageDown", 7: "Home", 8: "End",
	}
)

// readSequence reads the rest of a key that began with ESC [. Its name is "?" if it is unknown.
func readSequence(s Source) (Key, error) {
	var parameters strings.Builder
	for range maxSequence {
		r, err := s.Rune(0)
		if err != nil {
			return Key{}, err
		}
		if r < ' ' { // the sequence was cut off
			return plainKey(r), nil
		}
		if r < '@' || r > '~' {
			parameters.WriteRune(r)
			continue
		}
		numbers := [3]int{1, 1, 0}
		for i, part := range strings.SplitN(parameters.String(), ";", 3) {
			if n, err := strconv.Atoi(part); err == nil {
				numbers[i] = n
			}
		}
		switch {
		case r == '~' && numbers[0] == 200:
			return readPaste(s)
		case r == '~' && numbers[0] == 27: // xterm's modifyOtherKeys
			return Key{Name: withModifiers(characterName(numbers[2]), numbers[1]-1)}, nil
		case r == 'u': // the same, as kitty sends it
			return Key{Name: withModifiers(characterName(numbers[0]), numbers[1]-1)}, nil
		case r == '~':
			return Key{Name: withModifiers(numberedKeys[numbers[0]], numbers[1]-1)}, nil
		}
		return Key{Name: withModifiers(finalKeys[r], numbers[1]-1)}, nil
	}
	return Key{Name: "?"}, nil
}

// characterName names the key of a character by its number.
func characterName(n int) string {
	k := plainKey(rune(n))
	return k.Name + k.Text
}

// withModifiers adds modifiers to a name, by xterm's bits.
func withModifiers(name string, bits int) string {
	if name == "" {
		return "?"
	}
	if bits&1 != 0 {
		name = "S-" + name
	}
	if bits&2 != 0 {
		name = "M-" + name
	}
	if bits&4 != 0 {
		name = "C-" + name
	}
	return name
}

// readPaste reads up to the end of a paste.
func readPaste(s Source) (Key, error) {
	var text strings.Builder
	for {
		r, err := s.Rune(0)
		switch {
		case err != nil:
			return Key{}, err
		case r != '\x1b':
			text.WriteRune(r)
			continue
		}
		for range len(PasteEnds) - 1 {
			if _, err := s.Rune(0); err != nil {
				return Key{}, err
			}
		}
		return Key{Name: "Paste", Text: text.String()}, nil
	}
}
