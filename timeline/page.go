package timeline

import (
	"bytes"
	"fmt"
	_ "image/gif" // formats whose size can be shown
	_ "image/jpeg"
	_ "image/png"
	"strconv"
	"strings"
)

// A page is the text of a session as lines: the printed text, and one line in brackets
// for each other event that is shown. Both output.txt and Render use it.
type page struct {
	printer
	asked bool // something waits for input; an answer then ends the line on the screen
}

// print adds an event.
func (p *page) print(e Event) {
	if e.Unseen() {
		return
	}
	switch b := e.Body.(type) {
	case Text:
		p.write(b.Stream, b.Data)
	case Display:
		p.display(b)
	case Notice:
		p.label(b.Message)
	case Limit:
		p.label(b.String())
	case Denied:
		p.label(b.text())
	case Granted:
		p.label(b.text())
	case Call:
		p.label(b.String())
	case GenerationEnded:
		p.endTurn()
		p.label(deathReport("session ended", b))
	case Gap:
		p.label(gapLabel(b))
	case Wait:
		p.asked = b.Kind != WaitPermission && b.Kind != WaitForm // no line of input ends those
	case InputLine:
		p.enter(b.Prompt)
	case TurnEnded:
		p.endTurn()
		p.breakLine()
	case TurnStarted, WaitEnded, Interrupt, Progress, Preparation, GenerationStarted, Elided, Clear, Screen:
		// No trace: input is never echoed.
	}
}

// display adds a display: a label for a picture, else its text.
func (p *page) display(d Display) {
	if i := d.image(); i != nil {
		p.label(imageLabel(i))
		return
	}
	if text := d.Text(); text != "" {
		p.paragraph(text)
	}
}

// paragraph adds lines of their own.
func (p *page) paragraph(text string) {
	p.breakLine()
	p.write(Stdout, []byte(text))
	p.flush()
	p.breakLine()
}

// endTurn clears what a turn has left unfinished.
func (p *page) endTurn() {
	p.flush()
	p.asked = false
}

// enter ends the line in which input was asked for, as the Enter key does.
func (p *page) enter(prompt string) {
	if p.asked || p.endsWith(prompt) {
		p.breakLine()
	}
	p.asked = false
}

// endsWith reports whether the last line ends with this prompt.
func (p *page) endsWith(prompt string) bool {
	if prompt == "" || len(p.line) == 0 {
		return false
	}
	var q printer
	q.write(Stdout, []byte(prompt))
	return len(q.line) > 0 && bytes.HasSuffix(p.line, q.line)
}

// label adds a bracketed line.
func (p *page) label(text string) {
	p.breakLine()
	p.out = append(p.out, bracketed(text)...)
	p.out = append(p.out, '\n')
	p.lines++
}

// maxLabelBytes bounds a label, whose text may come from a runtime.
const maxLabelBytes = 1000

// bracketed makes one printable line of any text.
func bracketed(text string) string { return "[" + oneLine(text) + "]" }

func oneLine(text string) string {
	if len(text) > maxLabelBytes {
		text = strings.ToValidUTF8(text[:maxLabelBytes], "") + "…"
	}
	var p printer
	p.write(Stdout, []byte(strings.Join(strings.Fields(text), " ")))
	p.flush()
	return string(shown(nil, p.line))
}

func gapLabel(g Gap) string {
	if g.Bytes == 0 {
		return fmt.Sprintf("gap: %s lost", count(int(g.To-g.From)+1, "event"))
	}
	return fmt.Sprintf("gap: %s lost", ByteCount(g.Bytes))
}

// Why tells why a worker ended: the reason, and what its runtime said about it.
func (g GenerationEnded) Why() string {
	if g.Message == "" {
		return g.Reason
	}
	return g.Reason + " (" + g.Message + ")"
}

// deathReport tells why a worker ended, with further facts about it. It begins with the
// words in what.
func deathReport(what string, g GenerationEnded) string {
	if g.Unready {
		what = "session did not start"
	}
	s := what + ": " + g.Why()
	if !g.Unready {
		s += ", state lost"
	}
	if g.LastLine != "" {
		s += "; last line: " + strings.TrimSpace(g.LastLine)
	}
	if g.PeakRSS > 0 && !g.Clean && !g.Unready { // it may be why
		s += "; peak memory " + ByteCount(g.PeakRSS)
	}
	return s
}

// ByteCount formats a number of bytes for people, in decimal units: "117 KB".
func ByteCount(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d bytes", n)
	}
	v, unit := float64(n)/1000, "KB"
	for _, next := range []string{"MB", "GB", "TB"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, next
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f %s", v, unit)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

// count returns a number with its noun: "1 line", "48,211 lines".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// grouped formats a number with commas.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// A Transcript makes the text of a session of its events, as output.txt has it: nothing is folded or
// left out. The zero value is ready.
type Transcript struct{ p page }

// Add adds an event, and returns the text that is final by then: all but the last line, which what
// comes next may rewrite.
func (t *Transcript) Add(e Event) []byte {
	t.p.print(e)
	return t.take()
}

// Rest returns the last line, as it is now. Later events do not change it any more.
func (t *Transcript) Rest() []byte {
	t.p.flush()
	t.p.out = shown(t.p.out, t.p.line)
	t.p.continued = t.p.open()
	t.p.line, t.p.at, t.p.rewritten = t.p.line[:0], 0, false
	return t.take()
}

// take returns the final text, which the caller keeps until the next call.
func (t *Transcript) take() []byte {
	text := t.p.out
	t.p.out = t.p.out[:0]
	return text
}
