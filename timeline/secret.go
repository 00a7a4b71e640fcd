package timeline

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// minSecretBytes is the length of the shortest line that is hidden. A shorter one,
	// such as a PIN, also occurs in much unrelated text.
	minSecretBytes = 6

	// maxSecretBytes bounds one line of a secret, and allSecretBytes all lines in a
	// log. Their forms take up to 25 times as much memory.
	maxSecretBytes = 4 << 10
	allSecretBytes = 16 << 10

	// secretMark replaces a secret.
	secretMark = "[secret]"
)

// Errors of Hide.
var (
	errShortSecret = fmt.Errorf("it has fewer than %d bytes, which other text may have too", minSecretBytes)
	errLongSecret  = fmt.Errorf("it has a line of more than %s", ByteCount(maxSecretBytes))
	errManySecrets = errors.New("this session has too many secrets")
)

// secrets are the texts that a log never shows, in the forms in which they usually
// reappear. No form contains a newline, so each is within one line.
type secrets struct {
	forms [][]byte
	bytes int // of the lines of all secrets
}

// add adds a secret, line by line. The error names the part that is not hidden.
func (s *secrets) add(secret string) error {
	var err error
	hidden := false
	for line := range strings.FieldsFuncSeq(secret, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case len(line) < minSecretBytes: // one of several lines may be a bracket
			if err == nil && !hidden {
				err = errShortSecret
			}
		case len(line) > maxSecretBytes:
			err = errLongSecret
		case slices.ContainsFunc(s.forms, func(f []byte) bool { return string(f) == line }):
			hidden = true
		case s.bytes+len(line) > allSecretBytes:
			err = errManySecrets
		default:
			s.bytes += len(line)
			for _, form := range formsOf(line) {
				if len(form) >= minSecretBytes && !slices.ContainsFunc(s.forms, func(f []byte) bool { return string(f) == form }) {
					s.forms = append(s.forms, []byte(form))
				}
			}
			hidden = true
		}
	}
	if hidden && errors.Is(err, errShortSecret) {
		return nil
	}
	return err
}

// formsOf returns the ways in which runtimes and libraries write a text.
func formsOf(s string) []string {
	forms := []string{s, html.EscapeString(s), strings.ReplaceAll(s, `'`, `\'`), strings.ReplaceAll(s, `"`, `\"`)}
	// In quotes. Each language uses some of these escapes.
	backslashes := strings.ReplaceAll(s, `\`, `\\`)
	forms = append(forms, backslashes, strings.ReplaceAll(backslashes, `'`, `\'`), strings.ReplaceAll(backslashes, `"`, `\"`))
	for _, q := range []string{strconv.Quote(s), strconv.QuoteToASCII(s), inJSON(s)} {
		q = q[1 : len(q)-1]
		forms = append(forms, q, strings.ReplaceAll(q, `\"`, `"`), strings.ReplaceAll(strings.ReplaceAll(q, `\"`, `"`), `'`, `\'`))
	}
	if forWeb, err := json.Marshal(s); err == nil { // with the escapes for HTML
		forms = append(forms, string(forWeb[1:len(forWeb)-1]))
	}
	forms = append(forms, asciiJSON(s), strings.ReplaceAll(asciiJSON(s), `/`, `\/`), asBytes(s), strings.ReplaceAll(asBytes(s), `'`, `\'`), asOctal(s))
	for _, u := range []string{url.QueryEscape(s), url.PathEscape(s), strings.ReplaceAll(url.QueryEscape(s), "+", "%20")} {
		forms = append(forms, u, lowerHex(u), strings.ReplaceAll(u, "%2F", "/"))
	}
	// Base64 writes a text in one of three ways, depending on its position. The
	// characters at its edges also depend on the text around it.
	for shift := range 3 {
		coded := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), s...))
		from, to := (shift*8+5)/6, (shift+len(s))*8/6
		if inner := coded[from:to]; len(inner) >= minSecretBytes+2 {
			forms = append(forms, inner, strings.NewReplacer("+", "-", "/", "_").Replace(inner))
		}
	}
	return forms
}

// inJSON returns s in JSON, in quotes, with only the necessary escapes.
func inJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// asciiJSON returns s in JSON of ASCII, without quotes.
func asciiJSON(s string) string {
	q := inJSON(s)
	var b []byte
	for _, r := range q[1 : len(q)-1] {
		switch {
		case r < utf8.RuneSelf:
			b = append(b, byte(r))
		case r > 0xffff:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return string(b)
}

// asBytes returns s as languages write strings of bytes: \xc3\xa9.
func asBytes(s string) string {
	return eachByte(s, `\x%02x`)
}

// asOctal returns s as C programs write bytes: \303\251.
func asOctal(s string) string {
	return eachByte(s, `\%03o`)
}

func eachByte(s, format string) string {
	var b []byte
	for _, c := range []byte(s) {
		switch {
		case c == '\\':
			b = append(b, `\\`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c < ' ' || c > '~':
			b = fmt.Appendf(b, format, c)
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// lowerHex writes percent-escapes with small letters.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:], bytes.ToLower(b[i:i+3]))
			i += 2
		}
	}
	return string(b)
}

// A span is a part of a text.
type span struct{ from, to int }

// find returns the spans of secrets in b, in order. Overlapping ones are merged.
func (s *secrets) find(b []byte) []span {
	var all []span
	for _, form := range s.forms {
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], form)
			if i < 0 {
				break
			}
			at += i
			all = append(all, span{at, at + len(form)})
		}
	}
	slices.SortFunc(all, func(x, y span) int { return x.from - y.from })
	merged := all[:0]
	for _, one := range all {
		if n := len(merged); n > 0 && one.from < merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, one.to)
		} else {
			merged = append(merged, one)
		}
	}
	return merged
}

// begun returns the number of bytes at the end of b that may begin a secret. most means
// that they are more than half of one.
func (s *secrets) begun(b []byte) (n int, most bool) {
	for _, form := range s.forms {
		end := b[max(0, len(b)-len(form)+1):]
		for {
			i := bytes.IndexByte(end, form[0])
			if i < 0 {
				break
			}
			if end = end[i:]; bytes.HasPrefix(form, end) {
				n = max(n, len(end))
				most = most || 2*len(end) > len(form)
				break
			}
			end = end[1:]
		}
	}
	return n, most
}

// hide returns a whole text without secrets.
func (s *secrets) hide(text string) string {
	spans := s.find([]byte(text))
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, one := range spans {
		b.WriteString(text[at:one.from] + secretMark)
		at = one.to
	}
	return b.String() + text[at:]
}

// hideIn replaces secrets in all fields of a body. A Text comes in pieces and is left to
// the veil.
func (s *secrets) hideIn(body Body) Body {
	switch b := body.(type) {
	case Display:
		return s.hideDisplay(b)
	case TurnStarted:
		hidden := []byte(s.hide(string(b.Input)))
		b.Bytes += len(hidden) - len(b.Input)
		b.Input = hidden
		return b
	case TurnEnded:
		b.Name, b.Message, b.Prompt = s.hide(b.Name), s.hide(b.Message), s.hide(b.Prompt)
		return b
	case Wait:
		b.Prompt, b.Asks = s.hide(b.Prompt), s.hideDenied(b.Asks)
		return b
	case Denied:
		return s.hideDenied(b)
	case InputLine:
		b.Prompt, b.Text = s.hide(b.Prompt), s.hide(b.Text)
		return b
	case Progress:
		b.Message = s.hide(b.Message)
		return b
	case Preparation:
		b.Message = s.hide(b.Message)
		return b
	case Notice:
		b.Message = s.hide(b.Message)
		return b
	case Limit:
		b.Program = s.hide(b.Program)
		return b
	case GenerationEnded:
		b.Reason, b.Message, b.LastLine = s.hide(b.Reason), s.hide(b.Message), s.hide(b.LastLine)
		return b
	}
	return body
}

// hideDisplay replaces secrets in all types that are text, so that JSON may become something
// else only where it had a secret.
func (s *secrets) hideDisplay(d Display) Display {
	d.Title, d.ID, d.Meta = s.hide(d.Title), s.hide(d.ID), []byte(s.hide(string(d.Meta)))
	data := make(map[string][]byte, len(d.Data))
	for mime, b := range d.Data {
		if utf8.Valid(b) {
			b = []byte(s.hide(string(b)))
		}
		data[s.hide(mime)] = b
	}
	d.Data = data
	return d.digested()
}

func (s *secrets) hideDenied(d Denied) Denied {
	d.Path, d.Host, d.By, d.Remedy = s.hide(d.Path), s.hide(d.Host), s.hide(d.By), s.hide(d.Remedy)
	return d
}

// A veil hides secrets in text that comes in pieces. It holds back an end that may begin
// a secret until more text has come.
type veil struct {
	secrets
	last   Event  // the event of the tail
	tail   []byte // the end of the text so far, which may begin a secret
	out    int    // number of bytes of the tail that are already shown or hidden
	masked bool   // the bytes before the rest of the tail are hidden
	most   bool   // the tail is more than half of a secret
}

// take adds a text and returns the part that can be shown.
func (v *veil) take(e Event) []byte {
	b := e.Body.(Text).Data
	if len(v.tail) > 0 {
		b = slices.Concat(v.tail, b)
	}
	v.last = e
	spans := v.find(b)
	n, most := v.begun(b)
	keep := len(b) - n
	until := max(keep, v.out) // decided up to here
	for _, one := range spans {
		if one.from < until {
			until = max(until, one.to)
		}
	}
	shown := v.shown(b, spans, until)
	v.tail, v.out, v.most = slices.Clone(b[keep:]), until-keep, most
	return shown
}

// shown returns the part of b that is not shown yet, up to until.
func (v *veil) shown(b []byte, spans []span, until int) []byte {
	out := []byte{}
	at := v.out
	for _, one := range spans {
		if one.to <= at || one.from >= until {
			continue
		}
		if one.from > at {
			out = append(out, b[at:one.from]...)
			v.masked = false
		}
		if one.from >= at || !v.masked {
			out = append(out, secretMark...)
		}
		at, v.masked = one.to, true
	}
	if at < until {
		out = append(out, b[at:until]...)
		v.masked = false
	}
	return out
}

// release returns the text that is held back, once it can no longer begin a secret.
func (v *veil) release() []byte {
	rest := v.shown(v.tail, v.find(v.tail), len(v.tail))
	v.tail, v.out, v.masked, v.most = nil, 0, false, false
	return rest
}

// peek returns the text that is held back, for a reader that looks now, unless it is
// most of a secret. If it did begin a secret, the rest of that will be hidden.
func (v *veil) peek() []byte {
	if v.most {
		return nil
	}
	rest := v.shown(v.tail, v.find(v.tail), len(v.tail))
	v.out = len(v.tail)
	return rest
}

// endsText reports whether text cannot go on after this event. Events that a caller or a
// hook adds at any moment may come in the middle of one write of the runtime.
func endsText(body Body) bool {
	switch body.(type) {
	case Interrupt, Limit, Notice, Progress, WaitEnded, Denied, Granted:
		return false
	}
	return true
}
