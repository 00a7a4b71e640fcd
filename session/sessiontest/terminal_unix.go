//go:build unix

package sessiontest

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// terminalPromises returns the tests of session.TerminalAccess.
func terminalPromises() []promise {
	return []promise{
		{"keys and screens are refused without a turn, and while the runtime asks", testTypeRefused},
		{"invalid and oversized keys type nothing", testTypeInvalid},
		{"keys reach the program that reads the terminal, which is seen on the screen", testType},
		{"typed keys are recorded once with their author, but not secret ones", testTypeRecord},
		{"a program that reads single keys is waited for as such", testRawRequest},
		{"an input request of a program that polls ends when it goes on", testPollingRequest},
		{"live keys without text ask whether a program listens", testTypeProbe},
	}
}

// needsSight skips a test on a system on which a session does not see who reads the terminal.
func needsSight(t *testing.T) {
	t.Helper()
	if _, err := os.ReadFile("/proc/self/syscall"); err != nil {
		t.Skip("needs /proc/<pid>/syscall: this system does not show who reads the terminal")
	}
}

// screenInterval is the time between two looks at a screen.
const screenInterval = 5 * time.Millisecond

// waitScreen waits until the screen has a line that begins with text.
func waitScreen(t *testing.T, s session.Session, text string) session.Screen {
	t.Helper()
	ctx := withTimeout(t)
	again := time.NewTicker(screenInterval)
	defer again.Stop()
	for {
		screen, err := s.Screen(ctx)
		if err != nil {
			t.Fatalf("the screen never has %q: %v", text, err)
		}
		if slices.ContainsFunc(screen.Lines, func(line string) bool { return strings.HasPrefix(line, text) }) {
			return screen
		}
		<-again.C
	}
}

func typeKeys(t *testing.T, s session.Session, turn uint64, keys session.Keys) {
	t.Helper()
	if got, err := s.Type(withTimeout(t), keys); err != nil || got != turn {
		t.Fatalf("typing %q: got turn %d, %v, want %d", keys.Text, got, err, turn)
	}
}

// readKeys returns the recorded keys of a turn, in order.
func readKeys(t *testing.T, s session.Session, turn uint64) (keys []timeline.InputLine) {
	t.Helper()
	for _, e := range readAllEvents(t, s) {
		if b, ok := e.Body.(timeline.InputLine); ok && e.Turn == turn && b.Keys {
			keys = append(keys, b)
		}
	}
	return keys
}

func testTypeRefused(t *testing.T, s session.Session) {
	runCode(t, s, "print one")
	wantRefused := func(when string, want error) {
		t.Helper()
		for _, keys := range []session.Keys{{Text: "x<Enter>"}, {Bytes: []byte("x\r"), Secret: true}, {Text: "x", Live: true}, {Live: true}} {
			if turn, err := s.Type(withTimeout(t), keys); !errors.Is(err, want) || turn != 0 {
				t.Errorf("%s, %+v: got turn %d, %v", when, keys, turn, err)
			}
		}
	}
	wantRefused("between turns", session.ErrStale)
	if screen, err := s.Screen(withTimeout(t)); !errors.Is(err, session.ErrStale) {
		t.Errorf("between turns, the screen: got %+v, %v", screen, err)
	}
	turn := submitCode(t, s, "wait name? ")
	r := waitTurn(t, s, turn)
	_, err := s.Type(withTimeout(t), session.Keys{Text: "Ada<Enter>"})
	if refused, ok := errors.AsType[*session.Error](err); !errors.Is(err, session.ErrWaiting) || !ok || refused.InputRequest == nil || refused.InputRequest.ID != r.InputRequest.ID {
		t.Errorf("while the runtime asks: got %v", err)
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("Bob\n")}); err != nil {
		t.Fatal(err)
	}
	if end := waitTurn(t, s, turn); !strings.Contains(end.Text(), "Bob") || strings.Contains(end.Text(), "Ada") {
		t.Errorf("got %q", end.Text())
	}
	if keys := readKeys(t, s, turn); len(keys) > 0 {
		t.Errorf("recorded: %+v", keys)
	}
	if err := s.Close(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	wantRefused("after the close", session.ErrClosed)
}

func testTypeInvalid(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sh echo ready; read -r a; echo got $a")
	waitScreen(t, s, "ready")
	for _, c := range []struct {
		keys session.Keys
		want session.Kind
	}{
		{session.Keys{Text: "no<Nope>"}, session.KindInvalid},
		{session.Keys{Text: "no", Bytes: []byte("no")}, session.KindInvalid},
		{session.Keys{Text: strings.Repeat("n", session.MaxKeysBytes+1)}, session.KindTooLarge},
		{session.Keys{Bytes: make([]byte, session.MaxKeysBytes+1)}, session.KindTooLarge},
	} {
		_, err := s.Type(withTimeout(t), c.keys)
		if session.KindOf(err) != c.want || c.keys.Text == "no<Nope>" && !strings.Contains(err.Error(), "<Enter>") {
			t.Errorf("%.20q: got %v", c.keys.Text, err)
		}
	}
	typeKeys(t, s, turn, session.Keys{Text: "yes<Enter>"})
	waitEvent(t, s, 0, isEndOf(turn))
	if r := waitTurn(t, s, turn); !strings.Contains(r.Text(), "got yes") {
		t.Errorf("got %q", r.Text())
	}
	if keys := readKeys(t, s, turn); len(keys) != 1 {
		t.Errorf("recorded: %+v", keys)
	}
}

// isEndOf returns a condition for waitEvent: the turn is over.
func isEndOf(turn uint64) func(timeline.Event) bool {
	return func(e timeline.Event) bool {
		_, over := e.Body.(timeline.TurnEnded)
		return over && e.Turn == turn
	}
}

func testType(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sh echo first?; read -r a; echo got $a; echo second?; read -r a; echo got $a; echo third?; read -r a")
	waitScreen(t, s, "first?")
	typeKeys(t, s, turn, session.Keys{Text: "a<lt>b<Space>c<Enter>"})
	waitScreen(t, s, "got a<b c")
	waitScreen(t, s, "second?")
	typeKeys(t, s, turn, session.Keys{Bytes: []byte("1 2\r")})
	screen := waitScreen(t, s, "got 1 2")
	if screen.Rows == 0 || screen.Cols == 0 || screen.CursorRow == 0 || screen.CursorCol == 0 || screen.FullScreen {
		t.Errorf("got %+v", screen)
	}
	waitScreen(t, s, "third?")
	typeKeys(t, s, turn, session.Keys{Text: "end<Enter>"})
	waitEvent(t, s, 0, isEndOf(turn))
	if r := waitTurn(t, s, turn); r.Outcome != timeline.OutcomeOK || r.UnreadKeys != 0 {
		t.Errorf("got %+v", r)
	}
}

func testTypeRecord(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sh echo first?; read -r a; echo second?; read -r a; echo ${#a} bytes")
	waitScreen(t, s, "first?")
	typeKeys(t, s.As("ada"), turn, session.Keys{Text: "name<Enter>"})
	waitScreen(t, s, "second?")
	typeKeys(t, s.As("bob"), turn, session.Keys{Text: "hunter2<Enter>", Secret: true})
	waitEvent(t, s, 0, isEndOf(turn))
	want := []timeline.InputLine{{Text: "name<Enter>", Author: "ada", Keys: true}, {Secret: true, Author: "bob", Keys: true}}
	if keys := readKeys(t, s, turn); !reflect.DeepEqual(keys, want) {
		t.Errorf("got %+v, want %+v", keys, want)
	}
	for _, e := range readAllEvents(t, s) {
		if b, ok := e.Body.(timeline.Text); ok && strings.Contains(string(b.Data), "hunter2") {
			t.Errorf("the output has the secret: %q", b.Data)
		}
	}
	if r := waitTurn(t, s, turn); !strings.Contains(r.Text(), "7 bytes") {
		t.Errorf("got %q", r.Text())
	}
}

func testRawRequest(t *testing.T, s session.Session) {
	needsSight(t)
	turn := submitCode(t, s, "sh stty -icanon -echo min 1 time 0; echo key?; k=$(dd bs=1 count=1 2>/dev/null); echo got $k")
	r := waitTurn(t, s, turn)
	if r.InputRequest == nil || !r.InputRequest.Terminal || !r.InputRequest.Raw || r.InputRequest.Polls || r.InputRequest.Reader != "dd" {
		t.Fatalf("got %+v, %+v", r, r.InputRequest)
	}
	if again := readInfo(t, s).InputRequest; again == nil || !again.Raw {
		t.Errorf("info: got %+v", again)
	}
	asked := waitEvent(t, s, 0, func(e timeline.Event) bool { return e.Seq == r.InputRequest.ID })
	if b, ok := asked.Body.(timeline.InputRequested); !ok || !b.Raw || b.Polls {
		t.Errorf("its event: got %+v", asked)
	}
	typeKeys(t, s, turn, session.Keys{Text: "k"})
	if end := waitTurn(t, s, turn); end.Outcome != timeline.OutcomeOK || !strings.Contains(end.Text(), "got k") {
		t.Errorf("got %+v, %q", end, end.Text())
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("late\n")}); !errors.Is(err, session.ErrStale) {
		t.Errorf("a late answer: got %v", err)
	}
}

// Each read ends after two seconds without a key. On a busy machine, some are over before they count as
// a wait.
func testPollingRequest(t *testing.T, s session.Session) {
	needsSight(t)
	turn := submitCode(t, s, "sh stty -icanon -echo min 0 time 20; while :; do dd bs=1 count=1 of=/dev/null 2>/dev/null; done")
	r := waitTurn(t, s, turn)
	if r.InputRequest == nil || !r.InputRequest.Terminal || !r.InputRequest.Raw || !r.InputRequest.Polls {
		t.Fatalf("got %+v, %+v", r, r.InputRequest)
	}
	waitEvent(t, s, r.InputRequest.ID, func(e timeline.Event) bool {
		if b, ok := e.Body.(timeline.InputLine); ok {
			t.Errorf("got %+v", b)
		}
		b, ended := e.Body.(timeline.InputRequestEnded)
		return ended && b.Request == r.InputRequest.ID
	})
	if _, err := s.Interrupt(withTimeout(t), turn); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, s, 0, isEndOf(turn))
}

func testTypeProbe(t *testing.T, s session.Session) {
	needsSight(t)
	turn := submitCode(t, s, "sh echo first?; read -r a; echo got $a\nprint up\nsleep")
	if r := waitTurn(t, s, turn); r.InputRequest == nil || !r.InputRequest.Terminal {
		t.Fatalf("got %+v", r)
	}
	typeKeys(t, s, turn, session.Keys{Live: true})
	if i := readInfo(t, s); i.InputRequest == nil {
		t.Error("the question has ended the input request")
	}
	typeKeys(t, s, turn, session.Keys{Text: "x<Enter>", Live: true})
	waitEvent(t, s, 0, func(e timeline.Event) bool { return e.Turn == turn && hasText("up")(e) })
	for _, keys := range []session.Keys{{Live: true}, {Text: "y", Live: true}} {
		if _, err := s.Type(withTimeout(t), keys); !errors.Is(err, session.ErrStale) {
			t.Errorf("nobody listens, %+v: got %v", keys, err)
		}
	}
	if _, err := s.Interrupt(withTimeout(t), turn); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, s, 0, isEndOf(turn))
	var text strings.Builder
	for _, b := range readKeys(t, s, turn) {
		text.WriteString(b.Text)
	}
	if text.String() != "x<Enter>" {
		t.Errorf("recorded: %q", &text)
	}
}
