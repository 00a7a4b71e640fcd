package event

import (
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// IsDone reports whether the preparation is complete.
func (p Preparation) IsDone() bool { return p.Total > 0 && p.Done == p.Total }

// Text returns the name of what is being prepared, followed by the tool's last message.
func (p Preparation) Text() string {
	switch {
	case p.Name == "" && p.Message == "":
		return "the worker"
	case p.Name == "" || p.Message == "":
		return p.Name + p.Message
	}
	return p.Name + ": " + p.Message
}

// String returns the denied access as text: "write /etc/hosts (by touch)".
func (d AccessDenied) String() string {
	if d.Call != "" {
		return d.Op + " " + text.QuoteName(d.Call) + "(" + text.EscapeInvisible(d.Detail) + ")"
	}
	s := d.Op + " "
	if d.Detail != "" {
		s += text.QuoteName(d.Detail) + " in "
	}
	s += text.QuoteName(d.Path + d.Host)
	if d.ChildProgram != "" {
		s += " (by " + text.QuoteName(d.ChildProgram) + ")"
	}
	return s
}

// String returns the granted access as text: "write /data, always".
func (g AccessGranted) String() string {
	s := "write " + text.QuoteName(g.Write)
	if g.Read != "" {
		s = "read " + text.QuoteName(g.Read)
	}
	if g.Host != "" {
		s = "connect " + text.QuoteName(g.Host)
	}
	if g.Call != "" {
		s = "call " + text.QuoteName(g.Call)
	}
	if g.Always {
		s += ", always"
	}
	return s
}

// RefusedBy begins a line about the denial: "ada refused", "the sandbox refused" or, for a call that no
// user has allowed, "not allowed".
func (d AccessDenied) RefusedBy() string {
	switch {
	case d.Author != "":
		return d.Author + " refused"
	case d.Call != "":
		return "not allowed"
	}
	return "the sandbox refused"
}

// NoticeText returns the notice about the denial: what was denied, and how the user can allow it.
func (d AccessDenied) NoticeText() string {
	s := d.RefusedBy() + ": " + d.String()
	switch {
	case d.Hint != "":
		s += "; the user can allow it with: " + d.Hint
	case d.Call == "" && d.Detail != "":
		s += "; the user can run the same command outside the sandbox"
	}
	return s
}

// NoticeText returns the notice about the grant: what was granted, and by whom.
func (g AccessGranted) NoticeText() string {
	who := g.Author
	if who == "" {
		who = "the user"
	}
	return who + " allowed: " + g.String()
}

// NoticeText returns the notice about typed keys: who typed which, or that they are secret.
func (l InputLine) NoticeText() string {
	what := l.Text
	if l.Secret {
		what = "secret keys"
	}
	if l.Author == "" {
		return "typed " + what
	}
	return l.Author + " typed " + what
}

// String summarizes the calls: "called query × 40, 2 failed, 3.1 s".
func (c Call) String() string {
	text := "called " + text.QuoteName(c.Name)
	if c.Count > 1 {
		text += fmt.Sprintf(" × %d", c.Count)
	}
	for _, part := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Cancelled, "cancelled"}} {
		switch {
		case part.n > 0 && c.Count == 1:
			text += ", " + part.word
		case part.n > 0:
			text += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	switch {
	case c.Elapsed < 10*time.Millisecond:
		return text
	case c.Elapsed < 100*time.Second:
		return text + fmt.Sprintf(", %.2g s", c.Elapsed.Seconds())
	}
	return text + ", " + c.Elapsed.Round(time.Second).String()
}

// NoticeText returns the notice about the gap.
func (g Gap) NoticeText() string {
	if g.Bytes == 0 {
		return fmt.Sprintf("gap: %s lost", text.Count(int(g.To-g.From)+1, "event"))
	}
	return fmt.Sprintf("gap: %s lost", text.Bytes(g.Bytes))
}

// FullReason returns why a worker ended: the reason, and the message of its runtime.
func (e WorkerExited) FullReason() string {
	if e.Message == "" {
		return e.Reason
	}
	return e.Reason + " (" + e.Message + ")"
}

// Report returns why a worker ended, with further facts about it. It begins with the argument what,
// such as "session ended", unless the worker was never ready.
func (e WorkerExited) Report(what string) string {
	if e.NeverReady {
		what = "session did not start"
	}
	s := what + ": " + e.FullReason()
	if !e.NeverReady {
		s += ", state lost"
	}
	if e.LastLine != "" {
		s += "; last line: " + strings.TrimSpace(e.LastLine)
	}
	if e.PeakRSSBytes > 0 && !e.Clean && !e.NeverReady { // it may be the cause
		s += "; peak memory " + text.Bytes(e.PeakRSSBytes)
	}
	return s
}

// String describes the limit in one line.
func (l Limit) String() string {
	whose, limit := "", "the limit of this session"
	if l.AllSessions {
		whose, limit = " by all sessions together", "the limit of all sessions together"
	}
	switch {
	case l.Kind == LimitTurn:
		return "interrupted: this turn's limit of " + text.Duration(time.Duration(l.Max))
	case l.Kind == LimitMemory && l.Step == LimitEnded:
		return fmt.Sprintf("memory: %d of %d MiB used%s; %s was ended", l.Used>>20, l.Max>>20, whose, l.Program)
	case l.Kind == LimitMemory && l.Step == LimitRefused:
		return fmt.Sprintf("memory: %s is %d MiB; this turn used up to %d", limit, l.Max>>20, l.Used>>20)
	case l.Kind == LimitMemory:
		return fmt.Sprintf("memory: %d of %d MiB used%s", l.Used>>20, l.Max>>20, whose)
	case l.Step == LimitEnded:
		return fmt.Sprintf("%s: %d of %d%s; the newest were ended", l.Kind, l.Used, l.Max, whose)
	}
	return fmt.Sprintf("%s: %d of %d%s; no more can be started", l.Kind, l.Used, l.Max, whose)
}
