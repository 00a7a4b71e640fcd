package install

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonFormat edits JSON, and preserves comments and trailing commas. It adds neither, because not
// every client reads them.
type jsonFormat struct{}

func (jsonFormat) parse(text []byte) (map[string]any, error) {
	_, root, err := jsonRoot(text)
	if err != nil {
		return nil, err
	}
	root = root.Clone()
	root.Standardize()
	d := json.NewDecoder(bytes.NewReader(root.Pack()))
	d.UseNumber()
	tree := make(map[string]any)
	return tree, d.Decode(&tree)
}

func (jsonFormat) decodeValue(value any) any {
	switch v := value.(type) {
	case int:
		return json.Number(strconv.Itoa(v))
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return list
	}
	return value
}

// jsonRoot parses text; offsets count from after the byte order mark.
func jsonRoot(text []byte) (rest []byte, root hujson.Value, err error) {
	_, rest, err = cutByteOrderMark(text)
	if err != nil {
		return nil, root, err
	}
	if len(bytes.TrimSpace(rest)) == 0 { // clients read an empty file as {}
		rest = []byte("{}\n")
	}
	root, err = hujson.Parse(rest)
	if err != nil {
		return nil, root, formatErrorf("%s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if _, ok := root.Value.(*hujson.Object); !ok {
		return nil, root, formatErrorf("%s: the file must be an object, {…}", lineColumn(rest, root.StartOffset))
	}
	return rest, root, nil
}

func (j jsonFormat) putEntry(text []byte, at []string, settings []configSetting) ([]byte, error) {
	rest, root, err := jsonRoot(text)
	if err != nil {
		return nil, err
	}
	mark := text[:len(text)-len(bytes.TrimPrefix(text, []byte(byteOrderMark)))]
	layout := layoutOf(rest, root)
	object, depth := root, 0
	for ; depth < len(at); depth++ {
		member, err := findMember(rest, object, at[depth])
		if err != nil {
			return nil, err
		}
		if member == nil {
			break
		}
		object = member.Value
	}
	if depth < len(at) {
		value := any(settings)
		for _, key := range slices.Backward(at[depth+1:]) {
			value = []configSetting{{key: key, value: value}}
		}
		return append(slices.Clone(mark), layout.addMembers(rest, object, []configSetting{{key: at[depth], value: value}})...), nil
	}
	for _, s := range settings { // each is a small edit, after which the text is parsed again
		member, err := findMember(rest, object, s.key)
		if err != nil {
			return nil, err
		}
		if member == nil {
			rest = layout.addMembers(rest, object, []configSetting{s})
		} else {
			indent, inline := layout.memberIndent(rest, object)
			rest = applyEdits(rest, textEdit{member.Value.StartOffset, member.Value.EndOffset, layout.renderValue(s.value, indent, inline)})
		}
		if rest, root, err = jsonRoot(rest); err != nil {
			return nil, err
		}
		object = root
		for _, key := range at {
			if member, err = findMember(rest, object, key); err != nil || member == nil {
				return nil, formatErrorf("%q is written in a way that cannot be edited safely", strings.Join(at, "."))
			}
			object = member.Value
		}
	}
	return append(slices.Clone(mark), rest...), nil
}

func (jsonFormat) removeEntry(text []byte, at []string) ([]byte, error) {
	rest, object, err := jsonRoot(text)
	if err != nil {
		return nil, err
	}
	mark := len(text) - len(bytes.TrimPrefix(text, []byte(byteOrderMark)))
	for _, key := range at[:len(at)-1] {
		member, err := findMember(rest, object, key)
		if err != nil || member == nil {
			return nil, err
		}
		object = member.Value
	}
	o := object.Value.(*hujson.Object)
	i := slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool { return memberName(m) == at[len(at)-1] })
	member := &o.Members[i]
	begin := member.Name.StartOffset - trailingSpace(member.Name.BeforeExtra)
	end := member.Value.EndOffset
	var splices []textEdit
	switch last, comma := i == len(o.Members)-1, member.Value.AfterExtra != nil; {
	case !last:
		splices = []textEdit{{begin, end, ""}, commaAfter(end, member.Value)}
	case i > 0 && !comma:
		before := o.Members[i-1].Value
		splices = []textEdit{commaAfter(before.EndOffset, before), {begin, end, ""}}
	case comma:
		splices = []textEdit{{begin, end, ""}, commaAfter(end, member.Value)}
	case len(bytes.TrimSpace(member.Name.BeforeExtra)) == 0 && len(bytes.TrimSpace(o.AfterExtra)) == 0:
		splices = []textEdit{{begin, object.EndOffset - 1, ""}} // leaves {}
	default:
		splices = []textEdit{{begin, end, ""}}
	}
	// A line comment before the member still needs a line end.
	last := &splices[len(splices)-1]
	after := bytes.TrimLeft(rest[last.to:], " \t")
	if len(bytes.TrimSpace(member.Name.BeforeExtra)) > 0 && !bytes.HasPrefix(after, []byte("\n")) && !bytes.HasPrefix(after, []byte("\r\n")) {
		last.text = lineEnding(rest)
	}
	return append(slices.Clone(text[:mark]), applyEdits(rest, splices...)...), nil
}

// commaAfter removes the comma after a value, which ends at end.
func commaAfter(end int, v hujson.Value) textEdit {
	comma := end + len(v.AfterExtra)
	return textEdit{comma, comma + 1, ""}
}

func memberName(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// findMember finds a member; nil if it is missing. A duplicate is an error, because clients differ
// in which one counts.
func findMember(text []byte, object hujson.Value, name string) (*hujson.ObjectMember, error) {
	o, ok := object.Value.(*hujson.Object)
	if !ok {
		return nil, formatErrorf("%s: expected an object, {…}", lineColumn(text, object.StartOffset))
	}
	var found *hujson.ObjectMember
	for i := range o.Members {
		if memberName(o.Members[i]) != name {
			continue
		}
		if found != nil {
			return nil, formatErrorf("%q appears twice, at %s and %s: keep one", name,
				lineColumn(text, found.Name.StartOffset), lineColumn(text, o.Members[i].Name.StartOffset))
		}
		found = &o.Members[i]
	}
	return found, nil
}

// trailingSpace returns the length of the white space at the end of extra, including the line end
// after a line comment.
func trailingSpace(extra []byte) int {
	return len(extra) - len(bytes.TrimRight(extra, " \t\r\n"))
}

// A jsonLayout describes the formatting of a JSON file.
type jsonLayout struct {
	newline, unit string
	oneLine       bool // all members are on one line
}

func layoutOf(text []byte, root hujson.Value) jsonLayout {
	l := jsonLayout{newline: lineEnding(text), unit: "  "}
	o := root.Value.(*hujson.Object)
	l.oneLine = len(o.Members) > 0 && !bytes.ContainsRune(text[root.StartOffset:root.EndOffset], '\n')
	for _, m := range o.Members {
		if indent, ok := indentOf(m.Name.BeforeExtra); ok && indent != "" {
			l.unit = indent
			break
		}
	}
	return l
}

// indentOf returns the white space between the last line end and the following token. ok is false
// without a line end.
func indentOf(extra []byte) (indent string, ok bool) {
	i := bytes.LastIndexByte(extra, '\n')
	if i < 0 {
		return "", false
	}
	after := extra[i+1:]
	return string(after[:len(after)-len(bytes.TrimLeft(after, " \t"))]), true
}

// memberIndent returns the indentation of an object's members, and whether they share a line.
func (l jsonLayout) memberIndent(text []byte, object hujson.Value) (indent string, inline bool) {
	o := object.Value.(*hujson.Object)
	for _, m := range slices.Backward(o.Members) {
		if indent, ok := indentOf(m.Name.BeforeExtra); ok {
			return indent, false
		}
	}
	line := text[bytes.LastIndexByte(text[:object.StartOffset], '\n')+1 : object.StartOffset]
	own := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	return string(own) + l.unit, len(o.Members) > 0 || l.oneLine
}

func (l jsonLayout) addMembers(text []byte, object hujson.Value, members []configSetting) []byte {
	o := object.Value.(*hujson.Object)
	indent, inline := l.memberIndent(text, object)
	var body []string
	for _, m := range members {
		body = append(body, quotedJSON(m.key)+": "+l.renderValue(m.value, indent, inline))
	}
	separator, closing := ","+l.newline+indent, l.newline+strings.TrimSuffix(indent, l.unit)
	if inline && !bytes.Contains(o.AfterExtra, []byte("//")) { // a line comment ends its line
		separator, closing = ", ", ""
	}
	added := strings.Join(body, separator)
	end := object.EndOffset - 1 // the offset of the closing brace
	space := end - trailingSpace(o.AfterExtra)
	if len(o.Members) == 0 {
		if inline {
			return applyEdits(text, textEdit{space, end, added})
		}
		return applyEdits(text, textEdit{space, end, l.newline + indent + added + closing})
	}
	last := o.Members[len(o.Members)-1].Value
	if last.AfterExtra != nil { // the list has a trailing comma, so ours gets one
		return applyEdits(text, textEdit{space, space, separator[1:] + added + ","})
	}
	return applyEdits(text, textEdit{last.EndOffset, last.EndOffset, ","}, textEdit{space, space, separator[1:] + added})
}

// renderValue formats a value below a key with this indentation.
func (l jsonLayout) renderValue(value any, indent string, inline bool) string {
	list := func(open, close string, items []string) string {
		switch {
		case len(items) == 0:
			return open + close
		case inline:
			return open + strings.Join(items, ", ") + close
		}
		below := l.newline + indent + l.unit
		return open + below + strings.Join(items, ","+below) + l.newline + indent + close
	}
	var items []string
	switch v := value.(type) {
	case []configSetting:
		for _, s := range v {
			items = append(items, quotedJSON(s.key)+": "+l.renderValue(s.value, indent+l.unit, inline))
		}
		return list("{", "}", items)
	case []string:
		for _, s := range v {
			items = append(items, quotedJSON(s))
		}
		return list("[", "]", items)
	case string:
		return quotedJSON(v)
	case int:
		return strconv.Itoa(v)
	default:
		return strconv.FormatBool(v.(bool))
	}
}

// quotedJSON returns a JSON string without the escapes that only HTML needs.
func quotedJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
