package supervisor

import (
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/timeline"
)

// The kernel shows which threads poll the terminal. Whether such a program waits for input is
// judged: nothing distinguishes it from one that does its work between two polls. So a request of a
// program that polls is marked, and ends once the program has stopped polling. It never ends a turn.
const (
	// stillTime is how long a program must poll the terminal before it counts as waiting. In that time
	// it may write nothing, and use at most maxStillLoad percent of a processor. Prompts of
	// prompt_toolkit, Python 3.13 and Node are still at once; spinners draw every 80 to 100 ms.
	stillTime    = 400 * time.Millisecond
	maxStillLoad = 20

	// minSeen is the share of the scans, in percent, that must find a program polling. Those that only
	// poll were found in at least 97 % of them.
	minSeen = 80

	// A program that reads single keys waits once it has written nothing for drawTime. If it has
	// other threads, these may draw, and it waits after threadDrawTime: spinners draw every 80 to
	// 100 ms. If it has written while the same read was blocked, it draws on its own, and must be
	// silent for stillTime.
	drawTime       = 20 * time.Millisecond
	threadDrawTime = 110 * time.Millisecond

	// maxMissedScans is how many scans in a row may miss a thread that polls.
	maxMissedScans = 3

	// maxListeners bounds the threads that are tracked for one turn.
	maxListeners = 16
)

// A readerScan is the result of one scan for terminal readers.
type readerScan struct {
	readers     []pty.TerminalReader
	unscheduled []string // keys of those that wait for a processor, and polled before
	now         time.Time
	silent      time.Duration // since the last output or the last typed key
	screenHints
}

// screenHints are what the screen tells about a program that reads single keys.
type screenHints struct {
	drawn       bool   // the program moves the cursor, so its output is not its prompt
	prompt      string // the text of the cursor's line; "" for a full-screen program
	question    string // the text above the prompt, if the prompt has no letters
	takesPastes bool   // the program distinguishes pasted text from typed text
}

// A listenerState holds what scans have found out about programs that read the terminal, apart from
// their input requests.
type listenerState struct {
	listeners     []*listener      // the threads that poll, in the order in which they were found
	shownListener session.Listener // the listener that clients see; zero without one
	rawReader     rawReader
}

// A listener is a thread that polls the terminal.
type listener struct {
	reader     pty.TerminalReader
	stillSince time.Time     // beginning of the time in which it may count as waiting
	stillCPU   time.Duration // what its process had used then
	scans      int           // since then
	found      int           // in how many of them it polled
	misses     int           // how many of the latest have missed it

	isUnscheduled bool // the latest scan found that it waits for a processor
}

// restart begins a new time in which the listener may count as waiting.
func (l *listener) restart(now time.Time) {
	l.stillSince, l.stillCPU, l.scans, l.found = now, l.reader.CPUTime, 0, 0
}

// isWorking reports whether the program has used more of a processor than one that only waits.
func (l *listener) isWorking(now time.Time) bool {
	const enough = 100 * time.Millisecond // processor time is counted in steps of 10 ms
	seen := now.Sub(l.stillSince)
	return seen >= enough && (l.reader.CPUTime-l.stillCPU)*100 > seen*maxStillLoad
}

// stillPolls reports whether the thread still polls, as far as another look at it tells. On a busy
// machine a thread that polls often waits for a processor. It then shows no call and uses no time.
func (l *listener) stillPolls(r pty.TerminalReader, state pty.PollState) bool {
	const unused = 20 * time.Millisecond // processor time is counted in steps of 10 ms
	return state == pty.Polling || state == pty.PollRunning && r.CPUTime-l.reader.CPUTime < unused
}

// handleReaderScan handles the result of a scan. It returns in what time the next scan has something
// to decide, or 0 if that is unknown.
func (m *sessionMachine) handleReaderScan(s readerScan) (next time.Duration) {
	for _, l := range m.listeners {
		l.scans++
		l.misses++
	}
	for _, r := range s.readers {
		switch {
		case m.knownReaders[r.Key]:
		case r.Polls:
			m.noteListener(r, s)
		case r.Raw && (s.silent < m.drawTimeOf(r, s) || r.IsRunnable):
			next = max(drawTime, m.drawTimeOf(r, s)-s.silent)
		default:
			m.handleTerminalReader(r, s)
		}
	}
	m.listeners = slices.DeleteFunc(m.listeners, func(l *listener) bool { return l.misses > maxMissedScans })
	for _, l := range m.listeners {
		if l.misses > 0 || l.isUnscheduled || l.reader.IsRunnable { // it may be about to draw
			continue
		}
		if l.isWorking(s.now) {
			l.restart(s.now)
		}
		still := min(s.now.Sub(l.stillSince), s.silent)
		switch {
		case still < stillTime:
			if left := stillTime - still; next == 0 || left < next {
				next = left
			}
		case len(m.requests) == 0 && l.found*100 >= l.scans*minSeen:
			m.handleTerminalReader(l.reader, s)
		}
	}
	m.showListener()
	return next
}

// drawTimeOf returns how long a program that is blocked in reading single keys must have written
// nothing before it counts as waiting.
func (m *sessionMachine) drawTimeOf(r pty.TerminalReader, s readerScan) time.Duration {
	wrote := s.now.Add(-s.silent)
	switch {
	case r.Threads <= 1:
		return drawTime
	case m.rawReader.key != r.Key:
		m.rawReader = rawReader{key: r.Key, since: s.now}
	case wrote.After(m.rawReader.since):
		return stillTime
	}
	return threadDrawTime
}

// A rawReader is the last program with several threads that was seen blocked in reading single keys.
type rawReader struct {
	key   string // of this one read
	since time.Time
}

// noteListener notes that a scan has found a thread polling.
func (m *sessionMachine) noteListener(r pty.TerminalReader, s readerScan) {
	i := slices.IndexFunc(m.listeners, func(l *listener) bool { return l.reader.Key == r.Key })
	switch {
	case i >= 0:
		l := m.listeners[i]
		l.reader, l.misses = r, 0
		l.isUnscheduled = slices.Contains(s.unscheduled, r.Key)
		l.found++
	case len(m.listeners) < maxListeners:
		l := &listener{reader: r}
		l.restart(s.now)
		m.listeners = append(m.listeners, l)
	}
}

// showListener updates what clients see of the listeners.
func (m *sessionMachine) showListener() {
	var shown session.Listener
	if len(m.listeners) > 0 {
		shown = session.Listener{Program: m.listeners[0].reader.Command, Raw: m.listeners[0].reader.Raw}
	}
	if shown != m.shownListener {
		m.shownListener, m.changed = shown, true
	}
}

// currentListener returns the program that would read keys now, although it does not wait for them.
func (m *sessionMachine) currentListener() *session.Listener {
	if m.shownListener == (session.Listener{}) || m.phase == phaseWaiting {
		return nil
	}
	l := m.shownListener
	return &l
}

// polledReader returns the thread whose polling is the request that clients see, or nil.
func (m *sessionMachine) polledReader() *listener {
	if m.phase != phaseWaiting || !m.shownRequest.Polls {
		return nil
	}
	i := slices.IndexFunc(m.listeners, func(l *listener) bool { return l.reader.Key == m.shownRequest.readerKey })
	if i < 0 {
		return nil
	}
	return m.listeners[i]
}

// handleListenerScan handles another look at the thread whose polling is the request that clients
// see. The request ends if the thread has stopped polling, or if its program works.
func (m *sessionMachine) handleListenerScan(r pty.TerminalReader, state pty.PollState, now time.Time) {
	l := m.polledReader()
	if l == nil || l.reader.Key != r.Key {
		return
	}
	if !l.stillPolls(r, state) {
		if l.misses++; l.misses >= maxMissedScans {
			m.dropListener(l)
		}
		return
	}
	l.reader, l.misses = r, 0
	working := l.isWorking(now)
	if now.Sub(l.stillSince) >= stillTime {
		l.restart(now)
	}
	if working {
		m.dropReaderRequests()
		m.showListener()
	}
}

// dropListener ends the request of a thread that has stopped polling.
func (m *sessionMachine) dropListener(gone *listener) {
	m.listeners = slices.DeleteFunc(m.listeners, func(l *listener) bool { return l == gone })
	m.dropReaderRequests()
	m.showListener()
}

// forgetListeners makes every listener prove again that it waits: it gets input, or was interrupted.
func (m *sessionMachine) forgetListeners() {
	m.listeners = nil
	m.showListener()
}

// secretPrompt matches the words that make a prompt in raw mode one for a secret. In that mode nothing
// else distinguishes it, because line editors show the text themselves. The words are English, and
// those of common translations.
var secretPrompt = text.Pattern(`(?i)\b(pass(word|phrase|code)|pw|pin|otp|token|secret|api[ _-]?key|private key|credentials|(verification|security|access|one-time) code|` +
	`passwort|kennwort|mot de passe|senha|wachtwoord|adgangskode|passord|salasana|heslo|parola)\b|` +
	`contraseña|lösenord|hasło|jelszó|şifre|пароль|密码|密碼|口令|パスワード|비밀번호|암호|mật khẩu|كلمة المرور|סיסמה`)

// asksForSecret reports whether the words of the prompt ask for a secret.
func (h screenHints) asksForSecret() bool {
	return isSecretPrompt(h.prompt) || isSecretPrompt(h.question)
}

// isSecretPrompt reports whether the words of a prompt ask for a secret. The prompts of shells end with
// one of "$#%", and may contain the name of any directory.
func isSecretPrompt(prompt string) bool {
	prompt = strings.TrimSpace(prompt)
	return prompt != "" && !strings.ContainsRune("$#%", rune(prompt[len(prompt)-1])) && secretPrompt().MatchString(prompt)
}

// readerPrompt returns the prompt of a terminal reader, the kind of its request, and whether its
// input is secret.
func (m *sessionMachine) readerPrompt(r pty.TerminalReader, s readerScan) (prompt string, kind timeline.InputKind, secret bool) {
	prompt = string(m.lastLine)
	if r.Raw && s.drawn {
		prompt = text.Truncate(s.prompt, maxPromptBytes)
	}
	if r.Raw && strings.TrimSpace(prompt) == "" { // a program that draws with blanks
		prompt = ""
	}
	if r.Secret || r.Raw && s.asksForSecret() {
		return m.log.Redact(prompt), timeline.InputKindSecret, true
	}
	return m.log.Redact(prompt), timeline.InputKindLine, false
}
