package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/keynotation"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// A program may take echoTimeout to show text that was typed for it. The time begins again with
	// each output, up to maxEchoTime. Without an echo, the program gets no Enter.
	echoTimeout = 400 * time.Millisecond
	maxEchoTime = 2 * time.Second

	// A named key is typed once the keys before it were read, and the program has written nothing for
	// keyQuietTime. Programs that search while they read, such as fzf, would otherwise choose an old
	// entry. A program that shows nothing has silentKeyTime. After keyTimeout the key is typed anyway.
	keyQuietTime  = 30 * time.Millisecond
	silentKeyTime = 60 * time.Millisecond
	keyTimeout    = 200 * time.Millisecond

	// maxQueuedKeys bounds the keys that wait to be typed, in bytes.
	maxQueuedKeys = 4 * session.MaxKeysBytes
)

// typedKeys are keys on their way to the terminal.
type typedKeys struct {
	keys []keynotation.Keystroke // of Keys.Text
	raw  []byte                  // of Keys.Bytes
	live bool
	size int // in bytes, for the bounds
}

// Type implements session.Session.
func (s *Session) Type(ctx context.Context, keys session.Keys) (uint64, error) {
	return s.logCall("type", "")(s.typeAs(ctx, "", keys))
}

func (s *Session) typeAs(ctx context.Context, author string, k session.Keys) (uint64, error) {
	defer s.beginUse()()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	typed, err := newTypedKeys(k)
	if err != nil {
		return 0, err
	}
	s.confirmListener()
	if k.Live && !s.hasListener() {
		return 0, errNoListener
	}
	s.mu.Lock()
	defer s.unlock()
	w := s.worker
	if err := s.m.typingRefusal(); err != nil {
		return 0, err
	}
	if typed.size == 0 {
		return s.m.turn.id, nil
	}
	if w.typing.queuedBytes+typed.size > maxQueuedKeys {
		return 0, session.Errorf(session.KindBusy, "%d bytes of keys are still being typed; try again when the program has read them", w.typing.queuedBytes)
	}
	line := timeline.InputLine{Author: author, Keys: true, Secret: k.Secret || s.hidesKeysLocked()}
	if !line.Secret {
		line.Text = strings.ToValidUTF8(k.Text, "\uFFFD")
		if k.Text == "" {
			line.Text = keynotation.Format(k.Bytes)
		}
		line.Text = string(copyPrefix([]byte(line.Text), timeline.MaxInputBytes))
	} else if secret := w.typing.completeSecret(typed); secret != "" && !s.m.showSecrets {
		s.m.redactAnswer(secret)
	}
	return s.m.typeKeys(line, typed), nil
}

// completeSecret returns the secret that typed keys complete. Live keys come one by one, and the secret
// is complete at Enter.
func (t *workerTyping) completeSecret(typed typedKeys) string {
	text := typed.text()
	if !typed.live {
		return strings.TrimRight(text, "\r\n")
	}
	for _, c := range []byte(text) {
		const backspace = 0x7f
		if c == backspace {
			t.liveSecret = t.liveSecret[:max(0, len(t.liveSecret)-1)]
		} else if len(t.liveSecret) < timeline.MaxInputBytes {
			t.liveSecret = append(t.liveSecret, c)
		}
	}
	isEnter := func(k keynotation.Keystroke) bool { return k.Name == "Enter" }
	if !strings.ContainsAny(text, "\r\n") && !slices.ContainsFunc(typed.keys, isEnter) {
		return ""
	}
	secret := strings.TrimRight(string(t.liveSecret), "\r\n")
	t.liveSecret = nil
	return secret
}

// errNoListener refuses live keys that no program would read.
var errNoListener error = &session.Error{Kind: session.KindStale, Message: "no program is seen reading keys at the terminal now"}

// newTypedKeys checks keys and returns what to type.
func newTypedKeys(k session.Keys) (typedKeys, error) {
	typed := typedKeys{raw: k.Bytes, live: k.Live, size: len(k.Text) + len(k.Bytes)}
	switch {
	case typed.size > session.MaxKeysBytes:
		return typed, session.Errorf(session.KindTooLarge, "the keys have %d bytes, more than %d", typed.size, session.MaxKeysBytes)
	case k.Text != "" && k.Bytes != nil:
		return typed, session.Errorf(session.KindInvalid, "give either text or bytes as keys")
	case typed.size == 0 && !k.Live:
		return typed, session.Errorf(session.KindInvalid, "there are no keys to type")
	}
	var err error
	if typed.keys, err = keynotation.Parse(k.Text); err != nil {
		return typed, session.Errorf(session.KindInvalid, "keys: %v", err)
	}
	return typed, nil
}

// text returns the text among the keys.
func (k typedKeys) text() string {
	text := string(k.raw)
	for _, key := range k.keys {
		text += key.Text
	}
	return text
}

// typingRefusal returns why no keys can be typed now, or nil if they can.
func (m *sessionMachine) typingRefusal() error {
	switch {
	case m.isClosed():
		return m.closedError()
	case m.phase == phaseWaiting && !m.shownRequest.Terminal:
		return session.NewWaitingError(m.shownRequest.InputRequest)
	case m.phase != phaseWaiting && m.phase != phaseRunning:
		return &session.Error{Kind: session.KindStale, Message: "no code is running, so no program could read keys"}
	}
	return nil
}

// typeKeys records keys and has them typed. The caller has checked that they are not refused.
func (m *sessionMachine) typeKeys(line timeline.InputLine, typed typedKeys) (turn uint64) {
	turn = m.turn.id
	m.turn.interruptedAt = time.Time{} // the code continues after the interrupt
	m.dropReaderRequests()
	m.forgetListeners()
	m.recordEvent(line)
	m.addEffect(machineEffect{kind: doType, typed: terminalInput{typedKeys: typed}})
	return turn
}

// hidesKeysLocked reports whether the terminal expects a secret; s.mu is held.
func (s *Session) hidesKeysLocked() bool {
	if s.m.phase == phaseWaiting && s.m.shownRequest.Secret {
		return true
	}
	terminal := s.worker.proc.terminal
	return terminal.IsEchoOff() || terminal.ReadsKeys() && s.worker.display.hints().asksForSecret()
}

// hasListener reports whether a program would read keys now.
func (s *Session) hasListener() bool {
	s.mu.Lock()
	w, phase := s.worker, s.m.phase
	waits := phase == phaseWaiting && s.m.shownRequest.Terminal || s.m.keysTaken
	known := s.m.knownReaders
	s.mu.Unlock()
	switch {
	case waits, w == nil, phase != phaseRunning: // without a worker, the caller reports another error
		return waits || phase != phaseRunning
	case w.proc.terminal.ReadsKeys(), w.proc.terminal.UnreadInput() > 0:
		return true
	case w.proc.readers == nil:
		return false
	}
	for _, r := range w.proc.readers.Readers() {
		if !known[r.Key] {
			return true
		}
	}
	return false
}

// confirmListener looks once more at a program that counts as waiting because it polls, before it is
// answered. If it has stopped polling, its request ends.
func (s *Session) confirmListener() {
	s.mu.Lock()
	l, w := s.m.polledReader(), s.worker
	if l == nil {
		s.mu.Unlock()
		return
	}
	reader := l.reader
	s.mu.Unlock()
	for range maxMissedScans {
		r, state := w.proc.readers.RefreshReader(reader)
		if state != pty.PollEnded {
			return
		}
		s.mu.Lock()
		s.m.handleListenerScan(r, state, time.Now())
		s.unlock()
		time.Sleep(time.Millisecond) // it may be between two polls
	}
}

// Screen implements session.Session.
func (s *Session) Screen(context.Context) (session.Screen, error) {
	s.mu.Lock()
	w, active := s.worker, s.m.turn != nil
	program := ""
	if s.m.phase == phaseWaiting {
		program = s.m.shownRequest.Reader
	} else if l := s.m.currentListener(); l != nil {
		program = l.Program
	}
	s.mu.Unlock()
	if w == nil || !active {
		return session.Screen{}, &session.Error{Kind: session.KindStale, Message: "no code is running, so there is no screen"}
	}
	w.merger.catchUp(w.stopReading)
	screen := w.display.picture()
	screen.Program = program
	return screen, nil
}

// A terminalInput is input on its way to the programs at the terminal: an answer for a program that
// reads lines, a line for one that reads single keys, or keys.
type terminalInput struct {
	session.Input        // an answer
	byKeys        bool   // type the answer: the program reads single keys
	secret        bool   // type Enter after the answer even if it is not shown
	paste         bool   // type the answer as pasted text
	program       string // byKeys: the program's name
	typedKeys            // keys, in place of an answer
	stop          <-chan struct{}
}

func (in *terminalInput) isKeys() bool { return in.size > 0 }

// workerTyping holds the input of a worker's terminal. The session's lock guards it, except for answers.
type workerTyping struct {
	queue       []terminalInput // the first is typed next
	begun       bool            // the first is being typed
	typed       int             // how many of its keys were typed
	stop        chan struct{}   // closed when keys that are not typed yet must be dropped; nil until needed
	queuedBytes int             // of keys in queue
	sawKeys     bool            // keys were typed in this turn
	last        time.Time       // when the last input was typed
	hungUp      bool            // the readers of this turn have got SIGHUP
	liveSecret  []byte          // the live keys so far of a secret
	answers     queryAnswers
}

// queueInputLocked queues input for the terminal's readers, in the order of calls.
func (w *worker) queueInputLocked(in terminalInput) {
	if w.typing.stop == nil {
		w.typing.stop = make(chan struct{})
	}
	in.stop = w.typing.stop
	w.typing.queuedBytes += in.size
	w.typing.sawKeys = w.typing.sawKeys || in.isKeys()
	w.typing.queue = append(w.typing.queue, in)
	if len(w.typing.queue) == 1 {
		w.s.wg.Go(w.feedTerminal)
	}
}

// stopTypingLocked drops the keys that are not typed yet, and says how many; s.mu is held.
func (w *worker) stopTypingLocked() {
	if w.typing.stop == nil {
		return
	}
	close(w.typing.stop)
	w.typing.stop = nil
	dropped := 0
	for i, in := range w.typing.queue {
		if i == 0 && w.typing.begun {
			dropped += countKeys(in.keys[min(w.typing.typed, len(in.keys)):])
		} else {
			dropped += countKeys(in.keys) + len(in.raw) + utf8.RuneCount(in.Data)
		}
	}
	switch dropped {
	case 0:
	case 1:
		w.s.m.recordNotice("1 key was not typed")
	default:
		w.s.m.recordNotice("%d keys were not typed", dropped)
	}
}

func (w *worker) feedTerminal() {
	s := w.s
	s.mu.Lock()
	for len(w.typing.queue) > 0 {
		in := w.typing.queue[0]
		if !isClosed(in.stop) { // otherwise it was dropped at the end of its turn
			w.typing.begun = true
			s.mu.Unlock()
			notice := w.feedInput(in)
			w.lastOutput.Store(time.Now().UnixNano())
			s.mu.Lock()
			w.typing.last = time.Now()
			if notice != "" {
				s.m.recordNotice("%s", notice)
			}
		}
		w.typing.queuedBytes -= in.size
		w.typing.queue, w.typing.begun, w.typing.typed = w.typing.queue[1:], false, 0
	}
	w.startReaderScan()
	s.unlock()
	// While there is more input, a reader that wants it blocks within microseconds, so scan for it
	// at once, a few times.
	for range maxEagerScans {
		s.mu.Lock()
		more := w.readerTimer != nil && !s.m.queue.isEmpty() && len(w.typing.queue) == 0
		s.mu.Unlock()
		if !more {
			return
		}
		w.lastOutput.Store(0)
		w.scanReaders()
	}
}

// feedInput types or writes one input. It returns a notice if something was lost.
func (w *worker) feedInput(in terminalInput) (notice string) {
	switch {
	case isClosed(in.stop) && len(in.keys) > 0: // the end of the turn has counted them
		return ""
	case isClosed(in.stop):
		return "input for the terminal was lost: its turn has just ended"
	case in.isKeys():
		return w.typeKeys(in)
	case in.byKeys:
		return w.typeAnswer(in)
	}
	if err := w.proc.terminal.WriteInput(in.Data, in.EOF); err != nil {
		return fmt.Sprintf("input for the terminal was lost: %v", err)
	}
	return ""
}

// typeKeys types keys one after the other.
func (w *worker) typeKeys(in terminalInput) (notice string) {
	if in.raw != nil {
		return lostKeys(w.proc.terminal.TypeKeys(in.raw))
	}
	for left := in.keys; len(left) > 0; {
		if len(left) < len(in.keys) && !in.live && !w.awaitHandled(in.stop) {
			return ""
		}
		n := 1
		if !w.proc.terminal.ReadsKeys() {
			n = lineLength(left)
		}
		if !w.noteTyped(n, in.stop) {
			return ""
		}
		var b []byte
		for _, key := range left[:n] {
			b = append(b, w.encodeKey(key)...)
		}
		if err := w.proc.terminal.TypeKeys(b); err != nil {
			return lostKeys(err)
		}
		left = left[n:]
	}
	return ""
}

// lineLength returns how many keys a program that reads lines gets at once: those up to Enter, or up to
// an end of file, which comes alone.
func lineLength(keys []keynotation.Keystroke) int {
	const endOfFile = "C-d"
	for i, k := range keys {
		switch {
		case k.Name == "Enter", k.Name == endOfFile && i == 0:
			return i + 1
		case k.Name == endOfFile:
			return i
		}
	}
	return len(keys)
}

func lostKeys(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("keys for the terminal were lost: %v", err)
}

// countKeys returns how many keys a user would press.
func countKeys(keys []keynotation.Keystroke) (n int) {
	for _, k := range keys {
		n += max(1, len([]rune(k.Text)))
	}
	return n
}

// encodeKey returns what the terminal sends for a key to the program that reads it now.
func (w *worker) encodeKey(k keynotation.Keystroke) []byte {
	modes := w.display.modes()
	text := k.Encode(modes.ApplicationCursor)
	if k.Name == "" {
		return encodeText(text, modes.BracketedPaste)
	}
	return []byte(text)
}

// encodeText returns what a terminal sends for text: Enter is a carriage return. Several lines are one
// paste if the program can tell a paste from typing, because it would otherwise indent each line.
func encodeText(text string, takesPastes bool) []byte {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if takesPastes && strings.Contains(strings.TrimSuffix(text, "\n"), "\n") {
		text = strings.ReplaceAll(text, "\x1b[201~", "") // would end the paste
		return []byte("\x1b[200~" + strings.ReplaceAll(text, "\n", "\r") + "\x1b[201~")
	}
	return bytes.ReplaceAll([]byte(text), []byte("\n"), []byte("\r"))
}

// noteTyped records that the next keys of the first input in the queue are being typed. It returns false
// if typing has to stop.
func (w *worker) noteTyped(keys int, stop <-chan struct{}) bool {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.typing.last = time.Now()
	if isClosed(stop) {
		return false
	}
	w.typing.typed += keys
	return true
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitHandled waits until the program has handled the keys so far, or keyTimeout has passed. It
// returns false if typing has to stop.
func (w *worker) awaitHandled(stop <-chan struct{}) bool {
	begin := time.Now()
	interval := 200 * time.Microsecond // the kernel sends no event when input was read
	for {
		elapsed := time.Since(begin)
		last := time.Unix(0, w.lastOutput.Load())
		wrote := last.After(begin)
		switch {
		case elapsed >= keyTimeout:
			return true
		case w.proc.terminal.UnreadInput() > 0:
		case wrote && time.Since(last) >= keyQuietTime, !wrote && elapsed >= silentKeyTime:
			return true
		}
		select {
		case <-stop:
			return false
		case <-time.After(interval):
		}
		interval = min(2*interval, 5*time.Millisecond)
	}
}

// typeAnswer types an answer for a program that reads single keys. Enter follows once the program
// shows the text: then it takes a line. A program that takes one key gets no Enter.
func (w *worker) typeAnswer(in terminalInput) (notice string) {
	terminal := w.proc.terminal
	text := string(trimNewline(in.Data))
	enter := text == ""
	if text != "" {
		last := text[strings.LastIndexByte(text, '\n')+1:]
		mark := w.display.markEcho(last)
		if err := terminal.TypeKeys(encodeText(text, in.paste)); err != nil {
			return lostKeys(err)
		}
		enter = w.awaitEcho(last, mark, in.stop)
	}
	switch {
	case enter && text == "" && len(in.Data) == 0: // only the end of file
	case enter, in.secret:
		if err := terminal.TypeKeys([]byte("\r")); err != nil {
			return lostKeys(err)
		}
	case isClosed(in.stop): // the program has ended, or was interrupted
	default:
		notice = fmt.Sprintf("typed without Enter: %s did not show it; type <Enter> if it expects one", in.program)
	}
	if in.EOF {
		w.awaitHandled(in.stop)
		const endOfFile = 0x04
		return lostKeys(terminal.TypeKeys([]byte{endOfFile}))
	}
	return notice
}

// awaitEcho waits until the program shows text that was typed since mark. It returns false if that did
// not happen in time.
func (w *worker) awaitEcho(text string, mark echoMark, stop <-chan struct{}) bool {
	timeout := time.NewTimer(echoTimeout)
	defer timeout.Stop()
	end := time.Now().Add(maxEchoTime)
	for {
		changed := w.display.awaitChange()
		if w.display.showsTyped(text, mark) {
			return true
		}
		select {
		case <-changed:
			if !w.proc.terminal.ReadsKeys() { // it took one key, and continues
				return false
			}
			timeout.Reset(min(echoTimeout, time.Until(end)))
		case <-timeout.C:
			return false
		case <-stop:
			return false
		}
	}
}

// endReadersLocked ends the programs that still read the terminal after an interrupt, because the turn
// cannot end before they do; s.mu is held. The first time they get SIGHUP, as if their terminal was
// closed, so that editors save their files. After that they are killed.
func (w *worker) endReadersLocked() {
	if w.proc.readers == nil {
		return
	}
	signal := monitorproto.Hangup
	if w.typing.hungUp {
		signal = monitorproto.Kill
	}
	w.typing.hungUp = true
	w.s.wg.Go(func() {
		w.proc.readers.EndReaders(signal, func(names []string) { // before the signal, which can end the turn
			w.s.Notify(fmt.Sprintf("%s got %s, because it still read the terminal after an interrupt", text.JoinNames(names, "and", ""), signal))
		})
	})
}

// endTyping drops the keys that are not typed yet, reports those that no program has read, and empties
// the screen, at the end of a turn.
func (w *worker) endTyping() {
	w.display.clear()
	w.s.mu.Lock()
	defer w.s.unlock()
	w.stopTypingLocked()
	w.reportUnreadLocked(w.proc.terminal.UnreadInput())
	w.typing.hungUp, w.typing.liveSecret = false, nil
}

// reportUnreadLocked records how much of the turn's typed input no program has read; s.mu is held. The end
// of a line that a program did not need is not worth a notice.
func (w *worker) reportUnreadLocked(unread int) {
	unread -= w.typing.answers.takeSent()
	if unread > 1 || unread == 1 && w.typing.sawKeys {
		w.s.m.recordNotice("%d bytes of typed input were not read", unread)
	}
	w.typing.sawKeys = false
}
