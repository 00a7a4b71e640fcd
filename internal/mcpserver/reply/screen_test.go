package reply

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

func TestAlternateScreen(t *testing.T) {
	t.Run("text that is drawn on it is not output", func(t *testing.T) {
		const on, off = "\x1b[?1049h", "\x1b[?1049l"
		for _, test := range []struct {
			name   string
			before bool
			pieces []string
			want   string
			now    bool
		}{
			{"none", false, []string{"a\n", "b\x1b[1m\n"}, "a\nb\n", false},
			{"entered", false, []string{"a\n", on + "\x1b[39;1H~ ~", "~"}, "a\n", true},
			{"left", true, []string{"~ ~", "~" + off + "b\n"}, "b\n", false},
			{"both", false, []string{"a\n" + on + "~\n" + off + "b\n"}, "a\nb\n", false},
			{"an older mode", false, []string{"a\n\x1b[?47h~\x1b[?47lb\n"}, "a\nb\n", false},
		} {
			var events []timeline.Event
			for _, piece := range test.pieces {
				events = append(events, timeline.Event{Turn: 1, Body: timeline.Text{Data: []byte(piece)}})
			}
			rest := withoutAlternateScreen(events, test.before)
			if got := render.Events(rest.events, nil).Text(); got != test.want || rest.now != test.now {
				t.Errorf("%s: got %q, %v", test.name, got, rest.now)
			}
			if rest.hasDrawing != (test.name != "none") {
				t.Errorf("%s: a drawing was left out: %v", test.name, rest.hasDrawing)
			}
			if withoutAlternateScreen(append(events, timeline.Event{Turn: 1, Body: timeline.TurnEnded{}}), test.before).now {
				t.Errorf("%s: the alternate screen outlives its turn", test.name)
			}
		}
	})

	t.Run("text that a turn leaves behind on it is output", func(t *testing.T) {
		const on, off = "\x1b[?1049h", "\x1b[?1049l"
		for _, test := range []struct {
			name   string
			before bool
			pieces []string
			want   string
		}{
			{"after a switch", false, []string{"a\n" + on + "\x1b[?25lready", "b\n"}, "a\nreadyb\n"},
			{"only since the last switch", false, []string{on + "~" + off + "a\n", on + "b\n"}, "a\nb\n"},
			{"since an earlier reply", true, []string{"a\n", "b\n"}, "a\nb\n"},
			{"behind a drawing", false, []string{on + "\x1b[H\x1b[2J1\x1b[2;1H2 ", "\x1b[3;1H3\x1b[2;3H", "a\n", "b\n"}, "1\n2 \n3\na\nb\n"},
			{"behind a long drawing", false, []string{on + strings.Repeat("\x1b[1;1H0123456789", 100), "a\na\n"},
				"… 9 lines of a full-screen drawing are left out …\n0123456789\n… 90 times in all\n0123456789a\na\n"},
		} {
			var events []timeline.Event
			for _, piece := range test.pieces {
				events = append(events, timeline.Event{Turn: 1, Body: timeline.Text{Data: []byte(piece)}})
			}
			events = append(events, timeline.Event{Turn: 1, Body: timeline.TurnEnded{}})
			rest := withoutAlternateScreen(events, test.before)
			if got := render.Events(rest.events, nil).Text(); got != test.want || rest.now {
				t.Errorf("%s: got %q, %v, want %q", test.name, got, rest.now, test.want)
			}
		}
	})

	t.Run("each turn starts outside it", func(t *testing.T) {
		events := []timeline.Event{
			{Turn: 1, BetweenTurns: true, Body: timeline.Text{Data: []byte("\x1b[?1049hbackground\n")}},
			{Turn: 2, Body: timeline.TurnStarted{}},
			{Turn: 2, Body: timeline.Text{Data: []byte("a\n")}},
		}
		for _, before := range []bool{false, true} {
			if rest := withoutAlternateScreen(events, before); rest.now || rest.hasDrawing || len(rest.events) != len(events) {
				t.Errorf("%v: got %+v", before, rest)
			}
		}
	})

	t.Run("an input request on it has no prompt", func(t *testing.T) {
		w := &session.InputRequest{Terminal: true, Reader: "vi", Kind: "line", Prompt: "~  ~  1,1 All"}
		full := CallState{FullScreen: true}
		if got := full.inputRequestText(w); got != `waiting for input (full-screen program vi): answer with keys: "<Enter>", or repl_interrupt` {
			t.Errorf("got %q", got)
		}
		if got := new(CallState).inputRequestText(w); !strings.Contains(got, "(vi)") || !strings.Contains(got, "1,1 All") {
			t.Errorf("got %q", got)
		}
	})
}

func TestInputRequestText(t *testing.T) {
	for name, test := range map[string]struct {
		state CallState
		w     session.InputRequest
		want  string
	}{
		"a program that reads lines":             {CallState{}, session.InputRequest{}, `waiting for input (fzf): "> "`},
		"one that reads keys":                    {CallState{}, session.InputRequest{Raw: true}, `waiting for input (fzf, takes keys: "<Enter>"): "> "`},
		"one that polls":                         {CallState{}, session.InputRequest{Polls: true}, `waiting for input (fzf, polls and may continue by itself): "> "`},
		"both":                                   {CallState{}, session.InputRequest{Raw: true, Polls: true}, `waiting for input (fzf, takes keys: "<Enter>", polls and may continue by itself): "> "`},
		"on the full screen":                     {CallState{showsDrawn: true}, session.InputRequest{Raw: true, Polls: true}, `waiting for input (full-screen program fzf, polls and may continue by itself): answer with keys: "<Enter>", or repl_interrupt`},
		"keys are no advice if the user answers": {CallState{RequestAdvice: ": the user is being asked"}, session.InputRequest{Raw: true, Secret: true}, `waiting for a secret (fzf): "> "`},
	} {
		test.w.Terminal, test.w.Reader, test.w.Prompt = true, "fzf", "> "
		if got := test.state.inputRequestText(&test.w); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// drawn is the event of a full-screen program that starts.
var drawn = []timeline.Event{{Turn: 1, Body: timeline.Text{Data: []byte("main\n\x1b[?1049h~ ~")}}}

func TestRender(t *testing.T) {
	vi := session.Screen{Lines: []string{"hello", "~"}, Rows: 4, Cols: 20, CursorRow: 1, CursorCol: 6, FullScreen: true}
	text := func(state CallState, r session.Reply) string {
		t.Helper()
		var all []string
		for _, c := range Render(t.Context(), state, r).Result.Content {
			all = append(all, c.(*mcp.TextContent).Text)
		}
		return strings.Join(all, "\n")
	}
	shows := func(s session.Screen) func(context.Context) (session.Screen, error) {
		return func(context.Context) (session.Screen, error) { return s, nil }
	}
	waiting := session.Reply{Turn: 1, State: session.StateWaiting, Events: drawn, InputRequest: &session.InputRequest{Terminal: true, Reader: "vi"}}

	t.Run("a drawing is shown as the screen", func(t *testing.T) {
		got := text(CallState{ReadScreen: shows(vi)}, waiting)
		if want := "main\nhello\n~\n[screen 20x4, cursor at line 1, column 6, full screen]\n" + `[waiting for input (full-screen program vi): answer with keys: "<Enter>", or repl_interrupt]`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("a screen that is not full, or is unknown, is not shown", func(t *testing.T) {
		plain := vi
		plain.FullScreen = false
		for name, read := range map[string]func(context.Context) (session.Screen, error){
			"not full": shows(plain), "unknown": func(context.Context) (session.Screen, error) { return vi, session.ErrUnsupported }, "not asked for": nil,
		} {
			if got := text(CallState{ReadScreen: read, TypesKeys: true}, waiting); !strings.HasPrefix(got, "main\n[waiting") {
				t.Errorf("%s: got %q", name, got)
			}
		}
	})

	t.Run("keys show the screen, even if nothing was drawn", func(t *testing.T) {
		quiet := waiting
		quiet.Events = nil
		if got := text(CallState{ReadScreen: shows(vi), TypesKeys: true}, quiet); !strings.HasPrefix(got, "hello\n~\n[screen") {
			t.Errorf("got %q", got)
		}
		if got := text(CallState{ReadScreen: shows(vi), TypesKeys: true, Refused: true}, quiet); strings.Contains(got, "hello") || !strings.Contains(got, "your keys were NOT typed: waiting for input") {
			t.Errorf("refused: got %q", got)
		}
		if got := text(CallState{ReadScreen: shows(vi), FullScreen: true}, quiet); strings.Contains(got, "hello") {
			t.Errorf("a call that did nothing: got %q", got)
		}
	})

	t.Run("a running turn names the listener and unread keys", func(t *testing.T) {
		r := session.Reply{Turn: 1, State: session.StateRunning, Listener: &session.Listener{Program: "python3"}, UnreadKeys: 2}
		if got, want := text(CallState{}, r), "[running 0.0 s, no output so far; python3 listens for keys; 2 typed bytes were not read: call repl_output to wait, repl_interrupt to stop]"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("a notice says how a model types Enter", func(t *testing.T) {
		r := session.Reply{Turn: 1, State: session.StateIdle, Events: []timeline.Event{{Turn: 1, Body: timeline.Notice{Message: "typed without Enter: fzf did not show it; type <Enter> if it expects one"}}}}
		if got := text(CallState{}, r); !strings.Contains(got, `fzf did not show it; keys: "<Enter>" if it expects one`) {
			t.Errorf("got %q", got)
		}
	})
}

func TestScreenText(t *testing.T) {
	screen := session.Screen{Rows: 100, Cols: 80}
	for i := range 100 {
		screen.Lines = append(screen.Lines, fmt.Sprintf("%02d %s", i, strings.Repeat("─", 77)))
	}
	for name, most := range map[string]clientprofile.TextBudget{"characters": {Chars: 5000}, "bytes": {Chars: 1 << 20, Bytes: 9000}} {
		got := ScreenText(screen, most)
		if n := utf8.RuneCountInString(got); n > most.Chars || most.Bytes > 0 && len(got) > most.Bytes || n < 2500 {
			t.Errorf("%s: got %d characters", name, n)
		}
		if !strings.HasPrefix(got, "00 ") || !strings.Contains(got, "\n99 ") || !strings.Contains(got, " lines of the screen are left out …\n") || !strings.HasSuffix(got, "column 0]") {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := ScreenText(screen, clientprofile.TextBudget{Chars: 10_000}); got != screen.RenderText() {
		t.Errorf("a screen that fits: got %q", got)
	}
}
