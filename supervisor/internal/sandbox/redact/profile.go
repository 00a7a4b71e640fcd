package redact

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// An R profile is code, so it is parsed as R does: into tokens, brackets and expressions. A value
// that is assigned to the name of a secret is replaced by an empty text, whatever expression it is.
// From the first text that is not R, the rest is removed.

// Profile returns an R profile without its secrets and comments.
func Profile(text []byte) []byte {
	p := &rProfile{text: text}
	p.readTokens()
	p.redactExpressions(0, len(p.tokens), true, false)
	return p.applyEdits()
}

// An rKind is the kind of a token of R code.
type rKind byte

const (
	rText    rKind = 't'
	rName    rKind = 'n'
	rNumber  rKind = '0'
	rGrowing rKind = 'o' // an operator or keyword after which an expression continues
	rLeft    rKind = '=' // assigns what comes after it
	rRight   rKind = '>' // assigns what comes before it
	rOpen    rKind = '('
	rClose   rKind = ')'
	rComma   rKind = ',' // or a semicolon
	rLine    rKind = '\n'
)

// An rToken is a token of R code, at a position in the text.
type rToken struct {
	kind     rKind
	from, to int
	close    int // for an opening bracket: the index of its closing bracket
}

// An rProfile is an R profile while it is being redacted, with the edits to make.
type rProfile struct {
	text   []byte
	tokens []rToken
	edits  []rEdit
	end    int // end of the text that was parsed
}

// An rEdit replaces a range of the text by another text.
type rEdit struct {
	from, to int
	text     string
}

// rTokenForms are the tokens of R except raw strings, in the order in which they are tried.
var rTokenForms = []struct {
	kind rKind
	form func() *regexp.Regexp
}{
	{0, text.Pattern(`^[ \t\r\f\x{a0}]+`)},
	{rLine, text.Pattern(`^\n`)},
	{rText, text.Pattern(`(?s)^(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')`)},
	{rName, text.Pattern("(?s)^`(?:[^`\\\\]|\\\\.)*`")},
	{rNumber, text.Pattern(`^\.?[0-9][\w.]*`)},
	{rName, text.Pattern(`^[\pL._][\pL\pN._]*`)},
	{rGrowing, text.Pattern(`^(?:%[^%\n]*%|[=!<>]=|\|>|::+)`)},
	{rLeft, text.Pattern(`^(?:<<?-|:=|=)`)},
	{rRight, text.Pattern(`^->>?`)},
	{rGrowing, text.Pattern(`^[-+*/^~?!&|<>:$@\\]`)},
	{rOpen, text.Pattern(`^[(\[{]`)},
	{rClose, text.Pattern(`^[)\]}]`)},
	{rComma, text.Pattern(`^[,;]`)},
}

var (
	rWords   = []string{"if", "else", "for", "in", "while", "repeat", "function"}
	rComment = text.Pattern(`^#[^\n]*`)
	rRaw     = text.Pattern(`^[rR](["'])(-*)([(\[{])`)
	rClosing = map[byte]byte{'(': ')', '[': ']', '{': '}'}
)

// maxNestedBrackets bounds the nesting of brackets around an expression.
const maxNestedBrackets = 200

// readTokens finds the tokens, up to the first expression that is not R.
func (p *rProfile) readTokens() {
	var open []int
	at := 0
	for at < len(p.text) {
		kind, length := p.tokenAt(at)
		t := rToken{kind: kind, from: at, to: at + length}
		switch {
		case length == 0, kind == rOpen && len(open) == maxNestedBrackets:
			p.truncateBefore(append(open, len(p.tokens))[0])
			return
		case kind == rOpen:
			open = append(open, len(p.tokens))
		case kind == rClose:
			if len(open) == 0 || rClosing[p.text[p.tokens[open[len(open)-1]].from]] != p.text[at] {
				p.truncateBefore(append(open, len(p.tokens))[0])
				return
			}
			p.tokens[open[len(open)-1]].close = len(p.tokens)
			open = open[:len(open)-1]
		}
		if at = t.to; kind != 0 {
			p.tokens = append(p.tokens, t)
		}
	}
	if p.end = at; len(open) > 0 {
		p.truncateBefore(open[0])
	}
}

// tokenAt returns the kind and length of the token at a position. The kind is 0 for space and
// comments; the length is 0 if there is no token.
func (p *rProfile) tokenAt(at int) (rKind, int) {
	rest := p.text[at:]
	if comment := rComment().Find(rest); comment != nil {
		p.edits = append(p.edits, rEdit{at, at + len(comment), ""})
		return 0, len(comment)
	}
	if raw := rRaw().FindSubmatch(rest); raw != nil {
		closing := string(rClosing[raw[3][0]]) + string(raw[2]) + string(raw[1])
		body := bytes.Index(rest[len(raw[0]):], []byte(closing))
		if body < 0 {
			return 0, 0
		}
		return rText, len(raw[0]) + body + len(closing)
	}
	for _, f := range rTokenForms {
		switch found := f.form().Find(rest); {
		case found == nil:
		case slices.Contains(rWords, string(found)):
			return rGrowing, len(found)
		default:
			return f.kind, len(found)
		}
	}
	return 0, 0
}

// truncateBefore removes the top-level expression that contains a token, and everything after it.
func (p *rProfile) truncateBefore(token int) {
	p.tokens = p.tokens[:token]
	for i := 0; ; {
		j := p.expressionEnd(i, true)
		if j >= len(p.tokens) {
			p.tokens = p.tokens[:min(i, len(p.tokens))]
			break
		}
		i = j + 1
	}
	if n := len(p.tokens); n > 0 {
		p.end = p.tokens[n-1].to
	}
}

// expressionEnd returns the end of the expression that begins at a token. Unless lines is set, as
// within round and square brackets, an expression continues on the next line.
func (p *rProfile) expressionEnd(i int, lines bool) int {
	for continues := true; i < len(p.tokens); i++ {
		switch p.tokens[i].kind {
		case rComma, rClose:
			return i
		case rLine:
			if lines && !continues && !p.isElse(i) {
				return i
			}
		case rOpen:
			continues = i > 0 && p.isControlHead(i)
			i = p.tokens[i].close
		case rGrowing, rLeft, rRight:
			continues = true
		default:
			continues = false
		}
	}
	return i
}

// isElse reports whether the next word is else.
func (p *rProfile) isElse(i int) bool {
	for i < len(p.tokens) && p.tokens[i].kind == rLine {
		i++
	}
	return i < len(p.tokens) && p.tokenText(i) == "else"
}

// isControlHead reports whether brackets are the head of a loop, a condition or a function.
func (p *rProfile) isControlHead(i int) bool {
	for i--; i > 0 && p.tokens[i].kind == rLine; i-- {
	}
	return slices.Contains([]string{"if", "for", "while", "function", `\`}, p.tokenText(i))
}

func (p *rProfile) tokenText(i int) string { return string(p.text[p.tokens[i].from:p.tokens[i].to]) }

// nextToken returns the index after a token, or after the brackets that it opens.
func (p *rProfile) nextToken(i int) int {
	if p.tokens[i].kind == rOpen {
		i = p.tokens[i].close
	}
	return i + 1
}

// redactExpressions redacts a sequence of expressions. If empty is set, their texts are emptied, as
// in a call of a function that is named like a secret.
func (p *rProfile) redactExpressions(i, end int, lines, empty bool) {
	for i < end {
		j := min(p.expressionEnd(i, lines), end)
		p.redactExpression(i, j, empty)
		i = j + 1
	}
}

// redactExpression redacts one expression.
func (p *rProfile) redactExpression(i, end int, empty bool) {
	from := i // start of the target, or of the value of an assignment
	for k := i; k < end; k = p.nextToken(k) {
		switch p.tokens[k].kind {
		case rLeft:
			if name, to := p.trimLineEnds(from, k); to != name+1 { // a text that is the target of an assignment is its name
				p.redactParts(name, to, empty)
			}
			if p.isSecret(from, k) {
				p.emptyExpression(k+1, end)
				return
			}
			from = k + 1
		case rRight:
			if p.isSecret(k+1, end) {
				p.emptyExpression(from, k)
				p.redactParts(k+1, end, empty)
				return
			}
		}
	}
	p.redactParts(from, end, empty)
}

// redactParts redacts an expression that has assignments only within brackets.
func (p *rProfile) redactParts(i, end int, empty bool) {
	for k := i; k < end; k = p.nextToken(k) {
		switch t := p.tokens[k]; t.kind {
		case rText:
			p.redactText(t, empty)
		case rOpen:
			first := k + 1
			emptyArgs := empty
			if p.tokenText(k) == "(" && k > 0 && !p.isControlHead(k) {
				var keepFirst bool
				if emptyArgs, keepFirst = p.isSecretCall(k); keepFirst {
					first = p.expressionEnd(first, false) + 1
				}
				emptyArgs = emptyArgs || empty
			}
			p.redactExpressions(first, t.close, p.tokenText(k) == "{", emptyArgs)
		}
	}
}

// isSecretCall reports whether a call passes a secret: its function is named like one, or its
// arguments are such a name and another text. keepsFirst is true if the name comes first, which is
// not redacted.
func (p *rProfile) isSecretCall(open int) (is, keepsFirst bool) {
	if p.isSecret(open-1, open) {
		return true, false
	}
	end, texts := p.tokens[open].close, 0
	for _, t := range p.tokens[open:end] {
		if t.kind == rText {
			texts++
		}
	}
	for i := open + 1; i < end && texts > 1; {
		j := p.expressionEnd(i, false)
		if from, to := p.trimLineEnds(i, j); to == from+1 && p.tokens[from].kind == rText && p.isSecret(from, to) {
			return true, i == open+1
		}
		i = j + 1
	}
	return false, false
}

// isSecret reports whether one of these tokens is the name of a secret.
func (p *rProfile) isSecret(i, end int) bool {
	for ; i < end; i++ {
		if kind := p.tokens[i].kind; kind != rText && kind != rName {
			continue
		}
		if name := strings.Trim(p.tokenText(i), "\"'`"); wholeName().MatchString(name) && isSecretName(name) {
			return true
		}
	}
	return false
}

var wholeName = text.Pattern(`^[\w.-]+$`)

// rConstants are values that cannot be secrets.
var rConstants = []string{"TRUE", "FALSE", "NULL", "NA", "T", "F"}

// emptyExpression replaces an expression by an empty text. A function remains a function, with
// empty texts.
func (p *rProfile) emptyExpression(i, end int) {
	switch i, end = p.trimLineEnds(i, end); {
	case i == end, i+1 == end && slices.Contains(rConstants, p.tokenText(i)):
	case p.tokenText(i) == "function", p.tokenText(i) == `\`:
		p.redactExpressions(i, end, true, true)
	default:
		p.edits = append(p.edits, rEdit{p.tokens[i].from, p.tokens[end-1].to, `""`})
	}
}

// trimLineEnds removes the line ends around an expression.
func (p *rProfile) trimLineEnds(i, end int) (from, to int) {
	for i < end && p.tokens[i].kind == rLine {
		i++
	}
	for end > i && p.tokens[end-1].kind == rLine {
		end--
	}
	return i, end
}

// redactText empties a text, or removes the logins from it.
func (p *rProfile) redactText(t rToken, empty bool) {
	was := p.text[t.from:t.to]
	before, after := 1, 1
	if raw := rRaw().Find(was); raw != nil {
		before, after = len(raw), len(raw)-1
	}
	inner := was[before : len(was)-after]
	if empty || hasSecret(string(inner)) {
		p.edits = append(p.edits, rEdit{t.from, t.to, `""`})
	} else if plain := withoutAnyLogin(inner); !bytes.Equal(plain, inner) {
		p.edits = append(p.edits, rEdit{t.from + before, t.to - after, string(plain)})
	}
}

// applyEdits returns the text with the edits. An edit within another is ignored.
func (p *rProfile) applyEdits() []byte {
	sort.SliceStable(p.edits, func(i, j int) bool {
		a, b := p.edits[i], p.edits[j]
		return cmp.Or(a.from-b.from, b.to-a.to) < 0
	})
	var plain []byte
	at := 0
	for _, e := range p.edits {
		if e.from < at || e.to > p.end {
			continue
		}
		plain = append(append(plain, p.text[at:e.from]...), e.text...)
		at = e.to
	}
	return append(plain, p.text[at:p.end]...)
}
