package install

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// A configFormat changes one entry in the text of a file, and nothing else. at is the path to the
// entry: the keys from the top, its own name last.
type configFormat interface {
	// parse returns the content of the text, or an error with the position.
	parse(text []byte) (map[string]any, error)

	// putEntry adds the entry. In an existing entry it changes only the given settings.
	putEntry(text []byte, at []string, settings []configSetting) ([]byte, error)

	removeEntry(text []byte, at []string) ([]byte, error)

	// decodeValue converts a setting's value to the form that parse returns.
	decodeValue(value any) any
}

// A configSetting is a key of an entry with its value: a string, a list of strings, a bool or an
// int.
type configSetting struct {
	key   string
	value any

	// mustMatch marks the settings that determine which program starts. All others are written only
	// to a new entry, and belong to the user from then on.
	mustMatch bool
}

// A formatError names the position in a file that its client cannot read.
type formatError struct{ problem string }

func (e *formatError) Error() string { return e.problem }

func formatErrorf(format string, args ...any) error {
	return &formatError{fmt.Sprintf(format, args...)}
}

// Bounds for parsing: deeper nesting would exhaust the parsers' stack.
const (
	maxFileBytes = 32 << 20
	maxDepth     = 10_000
)

const byteOrderMark = "\xef\xbb\xbf"

// cutByteOrderMark splits off a byte order mark and rejects bytes that are not text. The mark is
// preserved, because clients differ about it.
func cutByteOrderMark(text []byte) (mark, rest []byte, err error) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, nil, formatErrorf("the file is UTF-16; save it as UTF-8")
	}
	rest, found := bytes.CutPrefix(text, []byte(byteOrderMark))
	if found {
		mark = []byte(byteOrderMark)
	}
	depth := 0
	for i, b := range rest {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case 0:
			return nil, nil, formatErrorf("%s: a NUL byte", lineColumn(rest, i))
		}
		if depth > maxDepth {
			return nil, nil, formatErrorf("%s: nested deeper than %d", lineColumn(rest, i), maxDepth)
		}
	}
	if !utf8.Valid(rest) {
		return nil, nil, formatErrorf("the file is not UTF-8")
	}
	return mark, rest, nil
}

// lineColumn formats an offset as line and column.
func lineColumn(text []byte, offset int) string {
	before := text[:offset]
	return fmt.Sprintf("line %d, column %d", 1+bytes.Count(before, []byte("\n")), offset-bytes.LastIndexByte(before, '\n'))
}

// lineEnding returns the line end of the first line.
func lineEnding(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// A textEdit replaces the bytes text[from:to] by a new text.
type textEdit struct {
	from, to int
	text     string
}

// applyEdits applies edits, which are in order and do not overlap.
func applyEdits(text []byte, splices ...textEdit) []byte {
	var out []byte
	last := 0
	for _, s := range splices {
		out = append(append(out, text[last:s.from]...), s.text...)
		last = s.to
	}
	return append(out, text[last:]...)
}

// lookupKeys follows keys from the top of a tree.
func lookupKeys(tree map[string]any, keys []string) (any, bool) {
	var v any = tree
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[k]; !ok {
			return nil, false
		}
	}
	return v, true
}

// entryAt returns the entry in a tree, or nil.
func entryAt(tree map[string]any, at []string) (map[string]any, error) {
	for i := range at {
		v, ok := lookupKeys(tree, at[:i+1])
		if !ok {
			return nil, nil
		}
		if _, ok := v.(map[string]any); !ok {
			return nil, formatErrorf("%q is not a table of settings", strings.Join(at[:i+1], "."))
		}
	}
	v, _ := lookupKeys(tree, at)
	return v.(map[string]any), nil
}

// editVerified applies an edit and verifies its effect: the new tree must equal a copy of the old
// one that want has changed.
func editVerified(e configFormat, text []byte, at []string, edit func() ([]byte, error), want func(tree map[string]any)) ([]byte, error) {
	tree, err := e.parse(text)
	if err != nil {
		return nil, err
	}
	edited, err := edit()
	if err != nil {
		return nil, err
	}
	got, err := e.parse(edited)
	if err != nil {
		return nil, fmt.Errorf("this file is written in a way that cannot be edited safely (%w)", err)
	}
	want(tree)
	for _, t := range []map[string]any{got, tree} {
		pruneEmpty(t, at)
	}
	if !reflect.DeepEqual(got, tree) {
		return nil, formatErrorf("this file is written in a way that cannot be edited safely")
	}
	return edited, nil
}

// putVerified adds an entry, or changes its settings, and checks the result.
func putVerified(e configFormat, text []byte, at []string, settings []configSetting) ([]byte, error) {
	return editVerified(e, text, at, func() ([]byte, error) { return e.putEntry(text, at, settings) }, func(tree map[string]any) {
		for _, key := range at {
			below, ok := tree[key].(map[string]any)
			if !ok {
				below = make(map[string]any)
				tree[key] = below
			}
			tree = below
		}
		for _, s := range settings {
			tree[s.key] = e.decodeValue(s.value)
		}
	})
}

// removeVerified removes an entry and checks the result.
func removeVerified(e configFormat, text []byte, at []string) ([]byte, error) {
	return editVerified(e, text, at, func() ([]byte, error) { return e.removeEntry(text, at) }, func(tree map[string]any) {
		for _, key := range at[:len(at)-1] {
			tree = tree[key].(map[string]any)
		}
		delete(tree, at[len(at)-1])
	})
}

// pruneEmpty removes empty tables on the path to an entry, because they have no meaning.
func pruneEmpty(tree map[string]any, at []string) {
	below, ok := tree[at[0]].(map[string]any)
	if !ok || len(at) == 1 {
		return
	}
	if pruneEmpty(below, at[1:]); len(below) == 0 {
		delete(tree, at[0])
	}
}

// changedLines returns the diff of two texts: the removed and the added lines, with the number of
// the first. It shows no other lines, because a configuration contains secrets.
func changedLines(before, after []byte) string {
	a, b := splitLines(before), splitLines(after)
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	a, b = a[first:], b[first:]
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var out strings.Builder
	fmt.Fprintf(&out, "@@ line %d\n", first+1)
	for _, side := range []struct {
		mark  string
		lines []string
	}{{"-", a}, {"+", b}} {
		for _, l := range side.lines {
			fmt.Fprintf(&out, "%s %s\n", side.mark, strings.TrimRight(l, "\r\n"))
		}
	}
	return out.String()
}

func splitLines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}
