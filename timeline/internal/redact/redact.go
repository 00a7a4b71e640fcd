package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/text"
)

const (
	// minSecretBytes is the length of the shortest line that is redacted. A shorter one, such as
	// a PIN, would also occur in much unrelated text.
	minSecretBytes = 6

	// maxSecretBytes bounds one line of a secret, and maxTotalSecretBytes all lines in a
	// log. Their forms take up to 25 times as much memory.
	maxSecretBytes      = 4 << 10
	maxTotalSecretBytes = 16 << 10

	// secretMark replaces a secret.
	secretMark = "[secret]"
)

// Errors of SecretSet.Add.
var (
	errShortSecret = fmt.Errorf("it has fewer than %d bytes, so it may occur in unrelated text", minSecretBytes)
	errLongSecret  = fmt.Errorf("it has a line of more than %s", text.Bytes(maxSecretBytes))
	errManySecrets = errors.New("this session has too many secrets")
)

// A SecretSet holds the secret texts, in the forms in which they usually reappear. No form contains
// a newline, so each is within one line.
type SecretSet struct {
	forms [][]byte
	bytes int // of the lines of all secrets
}

// Add adds a secret, line by line. The error names the part that is not redacted.
func (s *SecretSet) Add(secret string) error {
	var err error
	hidden := false
	for line := range strings.FieldsFuncSeq(secret, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case len(line) < minSecretBytes: // in a secret of several lines, one may be just a bracket
			if err == nil && !hidden {
				err = errShortSecret
			}
		case len(line) > maxSecretBytes:
			err = errLongSecret
		case slices.ContainsFunc(s.forms, func(f []byte) bool { return string(f) == line }):
			hidden = true
		case s.bytes+len(line) > maxTotalSecretBytes:
			err = errManySecrets
		default:
			s.bytes += len(line)
			for _, form := range secretForms(line) {
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

// secretForms returns the forms in which runtimes and libraries write a text.
func secretForms(s string) []string {
	forms := []string{s, html.EscapeString(s), strings.ReplaceAll(s, `'`, `\'`), strings.ReplaceAll(s, `"`, `\"`)}
	// In quotes. Each language uses some of these escapes.
	backslashes := strings.ReplaceAll(s, `\`, `\\`)
	forms = append(forms, backslashes, strings.ReplaceAll(backslashes, `'`, `\'`), strings.ReplaceAll(backslashes, `"`, `\"`))
	for _, q := range []string{strconv.Quote(s), strconv.QuoteToASCII(s), jsonForm(s)} {
		q = q[1 : len(q)-1]
		forms = append(forms, q, strings.ReplaceAll(q, `\"`, `"`), strings.ReplaceAll(strings.ReplaceAll(q, `\"`, `"`), `'`, `\'`))
	}
	if forWeb, err := json.Marshal(s); err == nil { // with HTML escapes
		forms = append(forms, string(forWeb[1:len(forWeb)-1]))
	}
	forms = append(forms, asciiJSONForm(s), strings.ReplaceAll(asciiJSONForm(s), `/`, `\/`), hexEscapeForm(s), strings.ReplaceAll(hexEscapeForm(s), `'`, `\'`), octalEscapeForm(s))
	for _, u := range []string{url.QueryEscape(s), url.PathEscape(s), strings.ReplaceAll(url.QueryEscape(s), "+", "%20")} {
		forms = append(forms, u, lowerHex(u), strings.ReplaceAll(u, "%2F", "/"))
	}
	// Base64 writes a text in one of three ways, depending on its position. The characters at
	// its edges also depend on the text around it.
	for shift := range 3 {
		coded := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), s...))
		from, to := (shift*8+5)/6, (shift+len(s))*8/6
		if inner := coded[from:to]; len(inner) >= minSecretBytes+2 {
			forms = append(forms, inner, strings.NewReplacer("+", "-", "/", "_").Replace(inner))
		}
	}
	return forms
}

// jsonForm returns s as a quoted JSON string with only the necessary escapes.
func jsonForm(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// asciiJSONForm returns s in ASCII-only JSON, without quotes.
func asciiJSONForm(s string) string {
	q := jsonForm(s)
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

// hexEscapeForm returns s in the hexadecimal escapes of byte strings: \xc3\xa9.
func hexEscapeForm(s string) string {
	return escapeBytes(s, `\x%02x`)
}

// octalEscapeForm returns s in the octal escapes of C programs: \303\251.
func octalEscapeForm(s string) string {
	return escapeBytes(s, `\%03o`)
}

func escapeBytes(s, format string) string {
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

// lowerHex changes percent-escapes to lower-case hexadecimal digits.
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

// A textSpan is a part of a text.
type textSpan struct{ from, to int }

// findSpans returns the spans of secrets in b, in order. Overlapping ones are merged.
func (s *SecretSet) findSpans(b []byte) []textSpan {
	var all []textSpan
	for _, form := range s.forms {
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], form)
			if i < 0 {
				break
			}
			at += i
			all = append(all, textSpan{at, at + len(form)})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].from < all[j].from })
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

// partialSuffix returns the number of bytes at the end of b that may begin a secret. most means
// that they are more than half of a secret.
func (s *SecretSet) partialSuffix(b []byte) (n int, most bool) {
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

// Redact returns a complete text with its secrets replaced.
func (s *SecretSet) Redact(text string) string {
	spans := s.findSpans([]byte(text))
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

// A Redactor replaces secrets in text that comes in pieces. It holds back an end that may begin
// a secret until more text has come.
type Redactor struct {
	SecretSet
	pendingTail  []byte // the end of the text so far, which may begin a secret
	shownBytes   int    // number of bytes of the tail that are already shown or redacted
	maskedBefore bool   // the bytes before the rest of the tail are redacted
	mostlySecret bool   // the tail is more than half of a secret
}

// Write adds a text and returns the part that can be shown.
func (r *Redactor) Write(b []byte) []byte {
	if len(r.pendingTail) > 0 {
		b = slices.Concat(r.pendingTail, b)
	}
	spans := r.findSpans(b)
	n, most := r.partialSuffix(b)
	keep := len(b) - n
	until := max(keep, r.shownBytes) // decided up to here
	for _, one := range spans {
		if one.from < until {
			until = max(until, one.to)
		}
	}
	shown := r.redactUntil(b, spans, until)
	r.pendingTail, r.shownBytes, r.mostlySecret = slices.Clone(b[keep:]), until-keep, most
	return shown
}

// redactUntil returns the part of b up to until that is not shown yet, with secrets replaced.
func (r *Redactor) redactUntil(b []byte, spans []textSpan, until int) []byte {
	out := []byte{}
	at := r.shownBytes
	for _, one := range spans {
		if one.to <= at || one.from >= until {
			continue
		}
		if one.from > at {
			out = append(out, b[at:one.from]...)
			r.maskedBefore = false
		}
		if one.from >= at || !r.maskedBefore {
			out = append(out, secretMark...)
		}
		at, r.maskedBefore = one.to, true
	}
	if at < until {
		out = append(out, b[at:until]...)
		r.maskedBefore = false
	}
	return out
}

// Flush returns the held-back text, once it can no longer begin a secret.
func (r *Redactor) Flush() []byte {
	rest := r.redactUntil(r.pendingTail, r.findSpans(r.pendingTail), len(r.pendingTail))
	r.pendingTail, r.shownBytes, r.maskedBefore, r.mostlySecret = nil, 0, false, false
	return rest
}

// HasPending reports whether text is held back.
func (r *Redactor) HasPending() bool { return len(r.pendingTail) > 0 }

// TakePending returns the held-back text, for a reader that reads now, unless it is most of a
// secret. If it turns out to begin a secret, the rest of the secret is redacted.
func (r *Redactor) TakePending() []byte {
	if r.mostlySecret {
		return nil
	}
	rest := r.redactUntil(r.pendingTail, r.findSpans(r.pendingTail), len(r.pendingTail))
	r.shownBytes = len(r.pendingTail)
	return rest
}
