// Package keynotation reads and writes keys as text, such as "yes<Enter>", and encodes them as an
// xterm sends them.
//
// The names are those of Vim, because models and users know them. A name is case-insensitive,
// except for the character in <C-x> and <M-x>. The encodings are those of xterm-256color in
// terminfo, and of "PC-style function keys" in xterm's ctlseqs.
package keynotation

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Keystroke is text, or one named key.
type Keystroke struct {
	Text string // text to type, if Name is ""
	Name string // a name without brackets, such as "Enter" or "C-x"
}

// A keyCode says how a named key is encoded.
type keyCode struct {
	name   string
	normal string
	// application is the encoding after a program has asked for application cursor keys (DECCKM);
	// "" if that makes no difference.
	application string
}

// keyCodes returns the named keys. The first name of an encoding is the one that Format writes.
func keyCodes() []keyCode {
	return []keyCode{
		{"Enter", "\r", ""}, {"CR", "\r", ""}, {"Return", "\r", ""},
		{"Tab", "\t", ""}, {"S-Tab", "\x1b[Z", ""}, {"Esc", "\x1b", ""}, {"Space", " ", ""},
		{"BS", "\x7f", ""}, {"Backspace", "\x7f", ""}, {"Del", "\x1b[3~", ""}, {"Delete", "\x1b[3~", ""}, {"Ins", "\x1b[2~", ""}, {"Insert", "\x1b[2~", ""},
		{"Up", "\x1b[A", "\x1bOA"}, {"Down", "\x1b[B", "\x1bOB"}, {"Right", "\x1b[C", "\x1bOC"}, {"Left", "\x1b[D", "\x1bOD"},
		{"Home", "\x1b[H", "\x1bOH"}, {"End", "\x1b[F", "\x1bOF"},
		{"PgUp", "\x1b[5~", ""}, {"PageUp", "\x1b[5~", ""}, {"PgDn", "\x1b[6~", ""}, {"PageDown", "\x1b[6~", ""},
		{"F1", "\x1bOP", ""}, {"F2", "\x1bOQ", ""}, {"F3", "\x1bOR", ""}, {"F4", "\x1bOS", ""},
		{"F5", "\x1b[15~", ""}, {"F6", "\x1b[17~", ""}, {"F7", "\x1b[18~", ""}, {"F8", "\x1b[19~", ""},
		{"F9", "\x1b[20~", ""}, {"F10", "\x1b[21~", ""}, {"F11", "\x1b[23~", ""}, {"F12", "\x1b[24~", ""},
		{"lt", "<", ""},
	}
}

// Names lists the names of keys for an error message.
const Names = "<Enter> <Tab> <S-Tab> <Esc> <Space> <BS> <Del> <Ins> <Up> <Down> <Left> <Right> <Home> <End> <PgUp> <PgDn> <F1> to <F12> <C-x> <M-x> <lt>"

// Parse splits text into runs of text and named keys. A "<" that begins no name is an error,
// because it may be a misspelled key: <lt> stands for "<".
func Parse(text string) ([]Keystroke, error) {
	var keys []Keystroke
	addText := func(s string) {
		if n := len(keys); n > 0 && keys[n-1].Name == "" {
			keys[n-1].Text += s
		} else if s != "" {
			keys = append(keys, Keystroke{Text: s})
		}
	}
	for text != "" {
		before, rest, found := strings.Cut(text, "<")
		addText(before)
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, ">")
		if !closed {
			return nil, fmt.Errorf("%q has no \">\": write <lt> for the character <", "<"+abbreviate(rest))
		}
		if (strings.EqualFold(name, "C-") || strings.EqualFold(name, "M-")) && strings.HasPrefix(after, ">") {
			name, after = name+">", after[1:] // Ctrl or Alt with ">" itself
		}
		key, ok := keyNamed(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("<%s> is not a key; the keys are %s", abbreviate(name), Names)
		case key.Name == "lt":
			addText("<")
		case key.Name == "Space":
			addText(" ")
		default:
			keys = append(keys, key)
		}
		text = after
	}
	return keys, nil
}

// maxQuoted bounds the part of faulty keys that an error quotes, in bytes.
const maxQuoted = 20

func abbreviate(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}

// keyNamed returns the key with this name, in its usual spelling.
func keyNamed(name string) (Keystroke, bool) {
	codes := keyCodes()
	if i := slices.IndexFunc(codes, func(c keyCode) bool { return strings.EqualFold(c.name, name) }); i >= 0 {
		return Keystroke{Name: codes[i].name}, true
	}
	if len(name) < 3 || name[1] != '-' {
		return Keystroke{}, false
	}
	char, size := utf8.DecodeRuneInString(name[2:])
	alone := char != utf8.RuneError && size == len(name)-2
	switch modifier := unicode.ToUpper(rune(name[0])); {
	case modifier == 'C' && strings.EqualFold(name[2:], "Space"):
		return Keystroke{Name: "C-Space"}, true
	case modifier == 'C' && alone && controlCode(char) >= 0:
		return Keystroke{Name: "C-" + string(char)}, true
	case modifier == 'M' && alone:
		return Keystroke{Name: "M-" + string(char)}, true
	case modifier == 'M' && strings.EqualFold(name[2:], "Enter"):
		return Keystroke{Name: "M-Enter"}, true
	}
	return Keystroke{}, false
}

// controlCode returns the control character of Ctrl and a character, or -1 if there is none.
func controlCode(char rune) int {
	switch {
	case char >= 'a' && char <= 'z':
		return int(char - 'a' + 1)
	case char >= '@' && char <= '_':
		return int(char - '@')
	case char == ' ':
		return 0
	case char == '?':
		return 0x7f
	}
	return -1
}

// Encode returns what a terminal sends for the key. application says that the program has asked for
// application cursor keys.
func (k Keystroke) Encode(application bool) string {
	if k.Name == "" {
		return k.Text
	}
	for _, c := range keyCodes() {
		switch {
		case c.name != k.Name:
		case application && c.application != "":
			return c.application
		default:
			return c.normal
		}
	}
	switch {
	case k.Name == "C-Space":
		return "\x00"
	case k.Name == "M-Enter":
		return "\x1b\r"
	case strings.HasPrefix(k.Name, "M-"):
		return "\x1b" + k.Name[len("M-"):]
	}
	char, _ := utf8.DecodeRuneInString(k.Name[len("C-"):])
	return string([]byte{byte(controlCode(char))})
}

// Format writes bytes from a terminal as keys. Parse reads the result, except for bytes that are not
// UTF-8: these appear as <0xff>.
func Format(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		name, size := firstKey(b)
		if name != "" {
			out.WriteString("<" + name + ">")
		} else {
			out.Write(b[:size])
		}
		b = b[size:]
	}
	return out.String()
}

// firstKey returns the name of the first key in b, or "" for a character, and its length in bytes.
func firstKey(b []byte) (name string, size int) {
	for _, c := range keyCodes() {
		for _, code := range []string{c.normal, c.application} {
			if len(code) > size && code != " " && strings.HasPrefix(string(b[:min(len(b), 8)]), code) {
				name, size = c.name, len(code)
			}
		}
	}
	if size > 1 || name != "" && name != "Esc" {
		return name, size
	}
	char, n := utf8.DecodeRune(b)
	switch {
	case char == utf8.RuneError && n == 1:
		return fmt.Sprintf("0x%02x", b[0]), 1
	case char == 0x1b && len(b) > 1 && b[1] == '\r':
		return "M-Enter", 2
	case char == 0x1b && len(b) > 1 && b[1] > ' ' && b[1] < 0x7f && b[1] != '>' && b[1] != '[' && b[1] != 'O':
		return "M-" + string(b[1:2]), 2
	case char == 0x1b:
		return "Esc", 1
	case char == 0:
		return "C-Space", 1
	case char < ' ' && char > 26:
		return "C-" + string('@'+char), 1
	case char < ' ':
		return "C-" + string('a'+char-1), 1
	}
	return "", n
}
