package install

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// tomlFormat edits TOML: an entry is a separate table, [a.b], at the end of the file.
type tomlFormat struct{}

func (tomlFormat) parse(text []byte) (map[string]any, error) {
	_, rest, err := cutByteOrderMark(text)
	if err != nil {
		return nil, err
	}
	tree := make(map[string]any)
	err = toml.Unmarshal(rest, &tree)
	if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := wrong.Position()
		return nil, formatErrorf("line %d, column %d: %s", row, column, strings.TrimPrefix(wrong.Error(), "toml: "))
	} else if err != nil {
		return nil, formatErrorf("%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	return tree, nil
}

func (tomlFormat) decodeValue(value any) any {
	switch v := value.(type) {
	case int:
		return int64(v)
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return list
	}
	return value
}

// A tomlTable is the range of a [header] and the lines up to the next one.
type tomlTable struct {
	keys       []string
	begin, end int // of its lines, without the blank lines and comments after them
	values     []tomlValue
}

// A tomlValue is the range of a key and its value.
type tomlValue struct {
	keys       []string
	begin, end int
}

// tomlTables returns the tables in order; the first has no header.
func tomlTables(text []byte) ([]tomlTable, error) {
	p := unstable.Parser{KeepComments: true}
	p.Reset(text)
	tables := []tomlTable{{}}
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.Comment {
			continue
		}
		var keys []string
		first := -1
		for it := e.Key(); it.Next(); {
			n := it.Node()
			keys = append(keys, string(n.Data))
			if first < 0 {
				first = int(n.Raw.Offset)
			}
		}
		lineEnd := func(from int) int {
			if i := bytes.IndexByte(text[from:], '\n'); i >= 0 {
				return from + i + 1
			}
			return len(text)
		}
		if e.Kind == unstable.KeyValue {
			t := &tables[len(tables)-1]
			end := int(e.Raw.Offset + e.Raw.Length)
			t.values = append(t.values, tomlValue{keys, int(e.Raw.Offset), end})
			t.end = lineEnd(end)
			continue
		}
		begin := bytes.LastIndexByte(text[:first], '\n') + 1
		tables = append(tables, tomlTable{keys: keys, begin: begin, end: lineEnd(first)})
	}
	if err := p.Error(); err != nil {
		return nil, err
	}
	return tables, nil
}

func (t tomlFormat) putEntry(text []byte, at []string, settings []configSetting) ([]byte, error) {
	mark, rest, err := cutByteOrderMark(text)
	if err != nil {
		return nil, err
	}
	tree, err := t.parse(text)
	if err != nil {
		return nil, err
	}
	nl := lineEnding(rest)
	if _, there := lookupKeys(tree, at); !there {
		if err := checkExtensible(rest, at[:len(at)-1]); err != nil {
			return nil, err
		}
		var b strings.Builder
		switch {
		case len(rest) == 0:
		case !bytes.HasSuffix(rest, []byte("\n")):
			b.WriteString(nl + nl)
		case !bytes.HasSuffix(rest, []byte("\n\n")) && !bytes.HasSuffix(rest, []byte("\n\r\n")):
			b.WriteString(nl)
		}
		fmt.Fprintf(&b, "[%s]%s", tomlKey(at), nl)
		for _, s := range settings {
			b.WriteString(tomlLine(s) + nl)
		}
		return slices.Concat(mark, rest, []byte(b.String())), nil
	}
	table, err := tomlEntry(rest, at)
	if err != nil {
		return nil, err
	}
	var splices []textEdit
	var added strings.Builder
	for _, s := range settings {
		i := slices.IndexFunc(table.values, func(v tomlValue) bool { return slices.Equal(v.keys, []string{s.key}) })
		if i < 0 {
			added.WriteString(tomlLine(s) + nl)
			continue
		}
		splices = append(splices, textEdit{table.values[i].begin, table.values[i].end, tomlLine(s)})
	}
	sort.SliceStable(splices, func(i, j int) bool { return splices[i].from < splices[j].from })
	if lines := added.String(); lines != "" {
		if !bytes.HasSuffix(rest[:table.end], []byte("\n")) { // the table ends with the file
			lines = nl + strings.TrimSuffix(lines, nl)
		}
		splices = append(splices, textEdit{table.end, table.end, lines})
	}
	return append(slices.Clone(mark), applyEdits(rest, splices...)...), nil
}

func (t tomlFormat) removeEntry(text []byte, at []string) ([]byte, error) {
	mark, rest, err := cutByteOrderMark(text)
	if err != nil {
		return nil, err
	}
	if _, err := tomlEntry(rest, at); err != nil {
		return nil, err
	}
	tables, err := tomlTables(rest)
	if err != nil {
		return nil, err
	}
	var splices []textEdit
	for _, table := range tables {
		if len(table.keys) < len(at) || !slices.Equal(table.keys[:len(at)], at) {
			continue
		}
		begin, end := table.begin, table.end
		if blank := blankBefore(rest, begin); end == len(rest) {
			begin -= blank
		} else if after := blankAfter(rest, end); blank > 0 || begin == 0 {
			end += after
		}
		splices = append(splices, textEdit{begin, end, ""})
	}
	return append(slices.Clone(mark), applyEdits(rest, splices...)...), nil
}

// blankBefore and blankAfter return the length of one empty line at an offset.
func blankBefore(text []byte, at int) int {
	for _, blank := range []string{"\n\r\n", "\n\n"} {
		if bytes.HasSuffix(text[:at], []byte(blank)) {
			return len(blank) - 1
		}
	}
	return 0
}

func blankAfter(text []byte, at int) int {
	for _, blank := range []string{"\r\n", "\n"} {
		if bytes.HasPrefix(text[at:], []byte(blank)) {
			return len(blank)
		}
	}
	return 0
}

// tomlEntry returns the table of an entry, if it is written as [a.b].
func tomlEntry(text []byte, at []string) (tomlTable, error) {
	tables, err := tomlTables(text)
	if err != nil {
		return tomlTable{}, err
	}
	i := slices.IndexFunc(tables, func(t tomlTable) bool { return slices.Equal(t.keys, at) })
	if i < 0 {
		return tomlTable{}, inlineTableError(at)
	}
	return tables[i], nil
}

// checkExtensible rejects a table that is written as a value ("x = {…}"), because TOML allows no
// additions to it elsewhere in the file.
func checkExtensible(text []byte, at []string) error {
	tables, err := tomlTables(text)
	if err != nil {
		return err
	}
	for _, t := range tables {
		for _, v := range t.values {
			if slices.Equal(slices.Concat(t.keys, v.keys), at) {
				return formatErrorf("%s: %s is an inline table and cannot be extended; write each server as a table, [%[2]s.NAME]", lineColumn(text, v.begin), tomlKey(at))
			}
		}
	}
	return nil
}

func inlineTableError(at []string) error {
	return formatErrorf("%s exists, but not as a table [%[1]s]; change it by hand", tomlKey(at))
}

func tomlLine(s configSetting) string {
	value := ""
	switch v := s.value.(type) {
	case string:
		value = tomlString(v)
	case []string:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = tomlString(item)
		}
		value = "[" + strings.Join(items, ", ") + "]"
	case int:
		value = strconv.Itoa(v)
	case bool:
		value = strconv.FormatBool(v)
	}
	return s.key + " = " + value
}

// tomlKey returns a dotted key.
func tomlKey(at []string) string {
	parts := make([]string, len(at))
	for i, name := range at {
		if parts[i] = name; !bareKey().MatchString(name) {
			parts[i] = tomlString(name)
		}
	}
	return strings.Join(parts, ".")
}

var bareKey = text.Pattern(`^[A-Za-z0-9_-]+$`)

// tomlString returns a basic string. All of JSON's escapes are valid in TOML, but JSON does not
// escape one control character.
func tomlString(s string) string { return strings.ReplaceAll(quotedJSON(s), "\x7f", `\u007f`) }
