// Package keys decodes the characters that a terminal sends into the keys that a user presses. It
// knows the sequences of xterm, rxvt, the Linux console and kitty. It opens no terminal and does
// not know what a key does. It starts no goroutines.
package keys

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Key is a single key press or a paste.
type Key struct {
	// Name is "" for a character. "C-", "M-" and "S-" stand for Ctrl, Alt and Shift, in this order:
	// "C-a", "M-b", "Up", "C-Left". "Paste" is text from the clipboard.
	Name string
	Text string // the character, or the whole paste
	Cut  bool   // the paste was too large, and Text is its beginning
	KeyBurst
}

// A KeyBurst describes the bytes that arrived together with a key. A program that types, or a paste
// without markers, sends many characters at a time, and a user sends one.
type KeyBurst struct {
	HasMore        bool // more characters follow in the burst,
	LineEndFollows bool // and a line end is among them
	AfterLines     bool // the burst had text and a line end before the key
}

// A KeySource delivers the characters that a terminal sends. A paste is enclosed in PasteStart and
// PasteEnd, and its only control characters are tabs and newlines. PasteEndCut ends a paste whose
// rest was dropped.
type KeySource interface {
	// NextRune returns the next character. If patience is not 0 and none arrives in this time, it
	// returns ErrQuiet.
	NextRune(patience time.Duration) (rune, error)

	// LastBurst describes the burst of the last character.
	LastBurst() KeyBurst
}

// ErrQuiet means that no key was pressed for some time.
var ErrQuiet = errors.New("lineedit: no key was pressed")

// Markers that a terminal sends around a paste.
const (
	PasteStart  = "\x1b[200~"
	PasteEnd    = "\x1b[201~"
	PasteEndCut = "\x1b[202~"
)

// escapeTimeout is the longest time between the bytes of one key. It distinguishes the Escape key
// from keys that start with the same byte.
const escapeTimeout = 50 * time.Millisecond

// replyTimeout is the longest pause within a reply of the terminal.
const replyTimeout = time.Second

// maxSequence bounds the bytes of one key.
const maxSequence = 32

// ReadKey reads the next key. alone says that the Escape key has its own meaning now; otherwise it
// acts as Alt for the next key, which readline calls Meta.
func ReadKey(s KeySource, alone bool) (Key, error) {
	k, err := readKey(s, alone)
	k.KeyBurst = s.LastBurst()
	return k, err
}

func readKey(s KeySource, alone bool) (Key, error) {
	r, err := s.NextRune(0)
	if err != nil || r != '\x1b' {
		return plainKey(r), err
	}
	var patience time.Duration
	if alone {
		patience = escapeTimeout
	}
	r, err = s.NextRune(patience)
	if err == nil && r == '\x1b' { // Alt and a key that has a sequence, or the same key twice
		r, err = s.NextRune(escapeTimeout)
		if err == nil && (r == '[' || r == 'O') {
			k, err := readSequence(s, r)
			return Key{Name: withModifiers(k.Name, 2)}, err
		}
	}
	switch {
	case errors.Is(err, ErrQuiet):
		return Key{Name: "Esc"}, nil
	case err != nil:
		return Key{}, err
	case r == '[' || r == 'O':
		return readSequence(s, r)
	case strings.ContainsRune("]P_^X", r):
		return readReply(s, r)
	}
	k := plainKey(r)
	switch k.Name {
	case "C-c": // cancels any pending key sequence
		return k, nil
	case "":
		return Key{Name: "M-" + k.Text}, nil
	}
	return Key{Name: withModifiers(k.Name, 2)}, nil
}

// readReply skips a terminal's reply to a program that has exited, such as its colours: a string up
// to BEL or ESC \. The reply ends at a control character, which no reply contains, and at a pause.
// introducer alone is a key with Alt.
func readReply(s KeySource, introducer rune) (Key, error) {
	for patience, escaped := escapeTimeout, false; ; patience = replyTimeout {
		r, err := s.NextRune(patience)
		switch {
		case errors.Is(err, ErrQuiet) && patience == escapeTimeout:
			return Key{Name: "M-" + string(introducer)}, nil
		case errors.Is(err, ErrQuiet), r == '\a', escaped && r == '\\':
			return Key{Name: "?"}, nil
		case err != nil:
			return Key{}, err
		case r < ' ' && r != '\x1b':
			return plainKey(r), nil
		}
		escaped = r == '\x1b'
	}
}

// plainKey returns the key of a single character.
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

// finalKeys maps the last character of a sequence to a key, and numberedKeys the number before a
// "~", as xterm and similar terminals send them. rxvt uses lower-case letters for Shift and Ctrl.
var (
	finalKeys = map[rune]string{
		'A': "Up", 'B': "Down", 'C': "Right", 'D': "Left", 'H': "Home", 'F': "End", 'Z': "S-Tab",
		'a': "S-Up", 'b': "S-Down", 'c': "S-Right", 'd': "S-Left",
	}
	numberedKeys = map[int]string{
		1: "Home", 2: "Insert", 3: "Delete", 4: "End", 5: "PageUp", 6: "PageDown", 7: "Home", 8: "End",
	}
	rxvtModifiers = map[rune]int{'$': 1, '^': 4, '@': 5}
)

// keypadKeys are the characters of an application keypad, from ESC O j on.
const keypadKeys = "*+,-./0123456789"

// readSequence reads the rest of a key that started with ESC [ or ESC O. Its name is "?" for an
// unknown sequence, and for a reply or report of the terminal.
func readSequence(s KeySource, introducer rune) (Key, error) {
	var parameters strings.Builder
	for range maxSequence {
		r, err := s.NextRune(0)
		if err != nil {
			return Key{}, err
		}
		if r < ' ' { // the sequence was cut off
			return plainKey(r), nil
		}
		text := parameters.String()
		own := strings.Trim(text, "0123456789:;") != "" // a private sequence is not a key
		if (r < '@' || r > '~') && (r != '$' || own || text == "") {
			parameters.WriteRune(r)
			continue
		}
		switch {
		case own:
			return Key{Name: "?"}, nil
		case r == '[' && text == "": // a key of the Linux console
			_, err := s.NextRune(0)
			return Key{Name: "?"}, err
		case introducer == '[' && r == 'M' && text == "":
			return Key{Name: "?"}, skipMouse(s)
		}
		if numbers := parseParameters(text); introducer == 'O' {
			return keypadKey(r, numbers), nil
		} else if r == '~' && numbers[0][0] == 200 {
			return readPaste(s)
		} else {
			return sequenceKey(r, numbers), nil
		}
	}
	return Key{Name: "?"}, nil
}

// skipMouse skips the bytes after the sequence of an old mouse report.
func skipMouse(s KeySource) error {
	for range 3 {
		if _, err := s.NextRune(escapeTimeout); err != nil && !errors.Is(err, ErrQuiet) {
			return err
		}
	}
	return nil
}

// parseParameters returns up to three parameters of a sequence, each with up to three parts.
func parseParameters(parameters string) [3][3]int {
	numbers := [3][3]int{{1, 0, 1}, {1, 1, 1}, {}}
	for i, parameter := range strings.SplitN(parameters, ";", 3) {
		for j, part := range strings.SplitN(parameter, ":", 3) {
			if n, err := strconv.Atoi(part); err == nil {
				numbers[i][j] = n
			}
		}
	}
	return numbers
}

// keypadKey returns the key for ESC O followed by r.
func keypadKey(r rune, numbers [3][3]int) Key {
	modifiers := max(numbers[1][0], numbers[0][0]) - 1 // old terminals send one number
	switch i := r - 'j'; {
	case r == 'M':
		return Key{Name: "Enter"}
	case r == 'X':
		return Key{Text: "="}
	case i >= 0 && int(i) < len(keypadKeys):
		return Key{Text: keypadKeys[i : i+1]}
	case r >= 'a' && r <= 'd':
		return Key{Name: withModifiers(finalKeys[r-'a'+'A'], 4)}
	}
	return Key{Name: withModifiers(finalKeys[r], modifiers)}
}

// sequenceKey returns the key for ESC [ followed by numbers and r.
func sequenceKey(r rune, numbers [3][3]int) Key {
	const released = 3
	modifiers := numbers[1][0] - 1
	switch {
	case numbers[1][1] == released:
		return Key{Name: "?"}
	case r == '~' && numbers[0][0] == 27: // xterm's modifyOtherKeys
		return characterKey(numbers[2][0], 0, modifiers)
	case r == 'u': // kitty's form of the same
		return characterKey(numbers[0][0], numbers[0][1], modifiers)
	case r == '~':
		return Key{Name: withModifiers(numberedKeys[numbers[0][0]], modifiers)}
	case rxvtModifiers[r] > 0:
		return Key{Name: withModifiers(numberedKeys[numbers[0][0]], rxvtModifiers[r])}
	}
	return Key{Name: withModifiers(finalKeys[r], modifiers)}
}

// characterKey returns the key of a character by its code point; shifted is the code point with
// Shift, or 0.
func characterKey(n, shifted, modifiers int) Key {
	const shift, alt, ctrl = 1, 2, 4
	r := rune(n)
	if r == '/' && modifiers&ctrl != 0 { // terminals send the same for both
		r = '_'
	}
	switch {
	case r >= 57399 && r <= 57408: // kitty's keypad
		return Key{Text: string('0' + r - 57399)}
	case r == 57414:
		return Key{Name: withModifiers("Enter", modifiers)}
	case unicode.Is(unicode.Co, r), !utf8.ValidRune(r): // a key without a character
		return Key{Name: "?"}
	case modifiers&ctrl != 0 && (r == ' ' || r >= '@' && r <= '~'): // the same key as in the encoding without such sequences
		k := plainKey(r & 0x1f)
		return Key{Name: withModifiers(k.Name, modifiers&alt)}
	}
	k := plainKey(rune(n))
	if k.Name == "" && modifiers&(alt|ctrl) == 0 {
		if modifiers&shift != 0 {
			k.Text = strings.ToUpper(k.Text)
			if shifted > 0 {
				k.Text = string(rune(shifted))
			}
		}
		return k
	}
	return Key{Name: withModifiers(k.Name+k.Text, modifiers)}
}

// withModifiers adds modifiers to a name, by xterm's bits. Meta is Alt.
func withModifiers(name string, bits int) string {
	if name == "" {
		return "?"
	}
	if bits&1 != 0 {
		name = "S-" + name
	}
	if bits&(2|8) != 0 {
		name = "M-" + name
	}
	if bits&4 != 0 {
		name = "C-" + name
	}
	return name
}

// readPaste reads up to the end of a paste.
func readPaste(s KeySource) (Key, error) {
	var text strings.Builder
	for {
		r, err := s.NextRune(0)
		switch {
		case err != nil:
			return Key{}, err
		case r != '\x1b':
			text.WriteRune(r)
			continue
		}
		end := []rune{r}
		for range len(PasteEnd) - 1 {
			r, err := s.NextRune(0)
			if err != nil {
				return Key{}, err
			}
			end = append(end, r)
		}
		return Key{Name: "Paste", Text: text.String(), Cut: string(end) == PasteEndCut}, nil
	}
}
