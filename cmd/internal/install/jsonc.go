package install

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonc edits JSON, with comments and trailing commas where a file has them. It
// adds neither: not every client reads them.
type jsonc struct{}

func (jsonc) parse(text []byte) (map[string]any, error) {
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

func (jsonc) decoded(value any) any {
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
	_, rest, err = withoutMark(text)
	if err != nil {
		return nil, root, err
	}
	if len(bytes.TrimSpace(rest)) == 0 { // clients take an empty file for {}
		rest = []byte("{}\n")
	}
	root, err = hujson.Parse(rest)
	if err != nil {
		return nil, root, unreadablef("%s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if _, ok := root.Value.(*hujson.Object); !ok {
		return nil, root, unreadablef("%s: it must be an object, {…}", place(rest, root.StartOffset))
	}
	return rest, root, nil
}

func (j jsonc) put(text []byte, at []string, settings []setting) ([]byte, error) {
	rest, root, err := jsonRoot(text)
	if err != nil {
		return nil, err
	}
	mark := text[:len(text)-len(bytes.TrimPrefix(text, []byte(byteOrderMark)))]
	layout := layoutOf(rest, root)
	object, depth := root, 0
	for ; depth < len(at); depth++ {
		member, err := memberOf(rest, object, at[depth])
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
			value = []setting{{key: key, value: value}}
		}
		return append(slices.Clone(mark), layout.add(rest, object, []setting{{key: at[depth], value: value}})...), nil
	}
	for _, s := range settings { // each is a small edit, after which the text is parsed again
		member, err := memberOf(rest, object, s.key)
		if err != nil {
			return nil, err
		}
		if member == nil {
			rest = layout.add(rest, object, []setting{s})
		} else {
			indent, inline := layout.around(rest, object)
			rest = spliced(rest, splice{member.Value.StartOffset, member.Value.EndOffset, layout.render(s.value, indent, inline)})
		}
		if rest, root, err = jsonRoot(rest); err != nil {
			return nil, err
		}
		object = root
		for _, key := range at {
			if member, err = memberOf(rest, object, key); err != nil || member == nil {
				return nil, unreadablef("%q is written in a way that cannot be edited safely", strings.Join(at, "."))
			}
			object = member.Value
		}
	}
	return append(slices.Clone(mark), rest...), nil
}

func (jsonc) remove(text []byte, at []string) ([]byte, error) {
	rest, object, err := jsonRoot(text)
	if err != nil {
		return nil, err
	}
	mark := len(text) - len(bytes.TrimPrefix(text, []byte(byteOrderMark)))
	for _, key := range at[:len(at)-1] {
		member, err := memberOf(rest, object, key)
		if err != nil || member == nil {
			return nil, err
		}
		object = member.Value
	}
	o := object.Value.(*hujson.Object)
	i := slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == at[len(at)-1] })
	member := &o.Members[i]
	begin := member.Name.StartOffset - trailingSpace(member.Name.BeforeExtra)
	end := member.Value.EndOffset
	var splices []splice
	switch last, comma := i == len(o.Members)-1, member.Value.AfterExtra != nil; {
	case !last:
		splices = []splice{{begin, end, ""}, commaAfter(end, member.Value)}
	case i > 0 && !comma:
		before := o.Members[i-1].Value
		splices = []splice{commaAfter(before.EndOffset, before), {begin, end, ""}}
	case comma:
		splices = []splice{{begin, end, ""}, commaAfter(end, member.Value)}
	case len(bytes.TrimSpace(member.Name.BeforeExtra)) == 0 && len(bytes.TrimSpace(o.AfterExtra)) == 0:
		splices = []splice{{begin, object.EndOffset - 1, ""}} // leaves {}
	default:
		splices = []splice{{begin, end, ""}}
	}
	// A line comment before it still needs an end of line.
	last := &splices[len(splices)-1]
	after := bytes.TrimLeft(rest[last.to:], " \t")
	if len(bytes.TrimSpace(member.Name.BeforeExtra)) > 0 && !bytes.HasPrefix(after, []byte("\n")) && !bytes.HasPrefix(after, []byte("\r\n")) {
		last.with = newline(rest)
	}
	return append(slices.Clone(text[:mark]), spliced(rest, splices...)...), nil
}

// commaAfter removes the comma after a value, which ends at end.
func commaAfter(end int, v hujson.Value) splice {
	comma := end + len(v.AfterExtra)
	return splice{comma, comma + 1, ""}
}

func nameOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// memberOf finds a member; nil when there is none. A duplicate is an error, because clients
// differ in which one counts.
func memberOf(text []byte, object hujson.Value, name string) (*hujson.ObjectMember, error) {
	o, ok := object.Value.(*hujson.Object)
	if !ok {
		return nil, unreadablef("%s: an object was expected, {…}", place(text, object.StartOffset))
	}
	var found *hujson.ObjectMember
	for i := range o.Members {
		if nameOf(o.Members[i]) != name {
			continue
		}
		if found != nil {
			return nil, unreadablef("%q is there twice, at %s and %s: keep one", name,
				place(text, found.Name.StartOffset), place(text, o.Members[i].Name.StartOffset))
		}
		found = &o.Members[i]
	}
	return found, nil
}

// trailingSpace returns the length of the white space at the end of an extra, without
// the end of a line comment.
func trailingSpace(extra []byte) int {
	return len(extra) - len(bytes.TrimRight(extra, " \t\r\n"))
}

// A layout describes the formatting of a file.
type layout struct {
	newline, unit string
	oneLine       bool // there are members, and no line ends between them
}

func layoutOf(text []byte, root hujson.Value) layout {
	l := layout{newline: newline(text), unit: "  "}
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

// indentOf returns the white space between the last end of line and what follows.
func indentOf(extra []byte) (indent string, ok bool) {
	i := bytes.LastIndexByte(extra, '\n')
	if i < 0 {
		return "", false
	}
	after := extra[i+1:]
	return string(after[:len(after)-len(bytes.TrimLeft(after, " \t"))]), true
}

// around returns the indentation of an object's members, and whether they share a line.
func (l layout) around(text []byte, object hujson.Value) (indent string, inline bool) {
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

// add appends members to an object.
func (l layout) add(text []byte, object hujson.Value, members []setting) []byte {
	o := object.Value.(*hujson.Object)
	indent, inline := l.around(text, object)
	var body []string
	for _, m := range members {
		body = append(body, quotedJSON(m.key)+": "+l.render(m.value, indent, inline))
	}
	separator, closing := ","+l.newline+indent, l.newline+strings.TrimSuffix(indent, l.unit)
	if inline && !bytes.Contains(o.AfterExtra, []byte("//")) { // such a comment ends its line
		separator, closing = ", ", ""
	}
	added := strings.Join(body, separator)
	end := object.EndOffset - 1 // of the brace
	space := end - trailingSpace(o.AfterExtra)
	if len(o.Members) == 0 {
		if inline {
			return spliced(text, splice{space, end, added})
		}
		return spliced(text, splice{space, end, l.newline + indent + added + closing})
	}
	last := o.Members[len(o.Members)-1].Value
	if last.AfterExtra != nil { // it has a trailing comma, so ours has
		return spliced(text, splice{space, space, separator[1:] + added + ","})
	}
	return spliced(text, splice{last.EndOffset, last.EndOffset, ","}, splice{space, space, separator[1:] + added})
}

// render formats a value below a key with this indentation.
func (l layout) render(value any, indent string, inline bool) string {
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
	case []setting:
		for _, s := range v {
			items = append(items, quotedJSON(s.key)+": "+l.render(s.value, indent+l.unit, inline))
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

// quotedJSON returns a string without the escapes that only HTML needs.
func quotedJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
