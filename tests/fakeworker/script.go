package fakeworker

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/tests/programs"
)

// pixel is a PNG picture of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// interrupted is the error of a turn that was.
func interrupted() *ipc.RuntimeError {
	return &ipc.RuntimeError{Name: "Interrupted", Message: ""}
}

// script runs the commands of text, until one fails or the turn is interrupted.
// unrun counts the lines behind that one.
func (w *worker) script(t *turn, text string) (failure *ipc.RuntimeError, unrun int) {
	lines := slices.Collect(strings.Lines(text))
	for i, line := range lines {
		name, argument, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if name == "" {
			continue
		}
		if w.stopping() {
			return nil, 0
		}
		if run, ok := commands()[name]; ok {
			failure = run(w, t, argument)
		} else {
			failure = &ipc.RuntimeError{Name: "SyntaxError", Message: "no command " + strconv.Quote(name)}
		}
		if t.interrupted() {
			failure = interrupted()
		}
		if failure != nil {
			w.print(ipc.Stderr, failure.Name+": "+failure.Message+"\n")
			return failure, len(lines) - i - 1
		}
	}
	return nil, 0
}

type command func(w *worker, t *turn, argument string) *ipc.RuntimeError

func commandNames() []string { return slices.Collect(maps.Keys(commands())) }

// commands is what a script can say; the package comment says what each does.
func commands() map[string]command {
	return map[string]command{
		"print":  func(w *worker, _ *turn, a string) *ipc.RuntimeError { w.print(ipc.Stdout, a+"\n"); return nil },
		"err":    func(w *worker, _ *turn, a string) *ipc.RuntimeError { w.print(ipc.Stderr, a+"\n"); return nil },
		"late":   func(w *worker, _ *turn, a string) *ipc.RuntimeError { w.late = append(w.late, a); return nil },
		"bulk":   bulk,
		"flood":  flood,
		"raw":    func(_ *worker, _ *turn, a string) *ipc.RuntimeError { return fail(os.Stdout.WriteString(a + "\n")) },
		"image":  image,
		"result": result,
		"trace": func(w *worker, _ *turn, a string) *ipc.RuntimeError {
			w.printAs(ipc.Stderr, ipc.TextTraceback, a+"\n")
			return nil
		},
		"display": display,
		"clear":   func(w *worker, _ *turn, _ string) *ipc.RuntimeError { w.send(ipc.Clear{}); return nil },
		"silent": func(w *worker, t *turn, _ string) *ipc.RuntimeError {
			w.print(ipc.Stdout, fmt.Sprintln(t.silent))
			return nil
		},
		"noexit": func(w *worker, t *turn, _ string) *ipc.RuntimeError {
			w.print(ipc.Stdout, fmt.Sprintln(t.noExit))
			return nil
		},
		"wait":     waitLine,
		"secret":   waitSecret,
		"took":     took,
		"create":   create,
		"shell":    shell,
		"all":      waitAll,
		"sleep":    sleep,
		"until":    until,
		"busy":     busy,
		"stuck":    stuck,
		"ignore":   ignore,
		"sigint":   sigint,
		"progress": progress,
		"error":    raise,
		"call":     call,
		"group":    callGroup,
		"rawcall":  rawCall,
		"uncall":   cancelCall,
		"child":    func(w *worker, t *turn, a string) *ipc.RuntimeError { return w.echo(t, a) },
		"sh":       func(w *worker, t *turn, a string) *ipc.RuntimeError { return w.child(t, "sh", "-c", a) },
		"readtty":  func(w *worker, t *turn, _ string) *ipc.RuntimeError { return w.child(t, "head", "-n1") },
		"fork":     leaveBehind,
		"env":      environment,
		"cwd":      func(w *worker, _ *turn, _ string) *ipc.RuntimeError { return directory(w) },
		"wide":     wide,
		"pid": func(w *worker, _ *turn, _ string) *ipc.RuntimeError {
			w.print(ipc.Stdout, fmt.Sprintln(os.Getpid()))
			return nil
		},
		"exit":      exit,
		"die":       func(_ *worker, _ *turn, a string) *ipc.RuntimeError { os.Exit(number(a)); return nil },
		"crash":     func(_ *worker, _ *turn, a string) *ipc.RuntimeError { return fail(0, dieBy(a)) },
		"garbage":   sendBytes(frameOf("garbage")),
		"oversize":  sendBytes([]byte{0xff, 0xff, 0xff, 0xff}),
		"wrongtype": sendBytes(frameOf("\x84\xa4type\xa4idle\xa4turn\xa11\xa6prompt\xa0\xa7outcome\xa2ok")),
	}
}

func fail(_ int, err error) *ipc.RuntimeError {
	if err == nil {
		return nil
	}
	return &ipc.RuntimeError{Name: "OSError", Message: err.Error()}
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// lines is n bytes of numbered lines.
func lines(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%063d\n", i)
	}
	return b.Bytes()[:n]
}

func bulk(w *worker, t *turn, argument string) *ipc.RuntimeError {
	for part := range slices.Chunk(lines(number(argument)), ipc.MaxOutputBytes) {
		if t.interrupted() {
			break
		}
		w.output(ipc.Stdout, part)
	}
	return nil
}

func flood(w *worker, t *turn, argument string) *ipc.RuntimeError {
	for part := range slices.Chunk(lines(number(argument)), 4<<10) {
		if t.interrupted() {
			break
		}
		w.print(ipc.Stdout, string(part))
	}
	return nil
}

// wide prints so many numbered lines of 200 characters that take three bytes each.
func wide(w *worker, _ *turn, argument string) *ipc.RuntimeError {
	text := strings.Repeat("語", 200)
	for i := range number(argument) {
		w.print(ipc.Stdout, fmt.Sprintf("%6d %s\n", i+1, text))
	}
	return nil
}

func directory(w *worker) *ipc.RuntimeError {
	dir, err := os.Getwd()
	w.print(ipc.Stdout, dir+"\n")
	return fail(0, err)
}

func image(w *worker, _ *turn, source string) *ipc.RuntimeError {
	data, err := base64.StdEncoding.DecodeString(pixel)
	w.send(ipc.Image{MIME: "image/png", Data: data, Source: source, Update: source != "", Title: "a pixel"})
	return fail(0, err)
}

// result echoes a value.
func result(w *worker, _ *turn, text string) *ipc.RuntimeError {
	w.printAs(ipc.Stdout, ipc.TextResult, text+"\n")
	w.send(ipc.Display{Data: bundle(text), Kind: ipc.DisplayResult})
	return nil
}

func display(w *worker, _ *turn, argument string) *ipc.RuntimeError {
	id, text, _ := strings.Cut(argument, " ")
	id, update := strings.CutPrefix(id, "+")
	w.send(ipc.Display{Data: bundle(text), ID: id, Update: update, Kind: ipc.DisplayShown})
	return nil
}

func bundle(text string) map[string][]byte {
	return map[string][]byte{"text/plain": []byte(text), "text/html": []byte("<b>" + text + "</b>")}
}

func waitLine(w *worker, t *turn, prompt string) *ipc.RuntimeError {
	if answer, ok := w.ask(t, prompt, ipc.WaitLine, ipc.WantLine); ok {
		w.printAnswer(answer)
	}
	return nil
}

func shell(w *worker, t *turn, prompt string) *ipc.RuntimeError {
	w.mu.Lock()
	t.hard = true
	w.mu.Unlock()
	for {
		answer, ok := w.ask(t, prompt, ipc.WaitDebugger, ipc.WantLine)
		if !ok {
			return nil
		}
		w.printAnswer(answer)
	}
}

func waitAll(w *worker, t *turn, prompt string) *ipc.RuntimeError {
	if answer, ok := w.ask(t, prompt, ipc.WaitLine, ipc.WantAll); ok {
		w.printAnswer(answer)
	}
	return nil
}

func (w *worker) printAnswer(answer []byte) {
	if answer == nil {
		answer = []byte("<eof>")
	}
	w.print(ipc.Stdout, strings.TrimSuffix(string(answer), "\n")+"\n")
}

func waitSecret(w *worker, t *turn, prompt string) *ipc.RuntimeError {
	if answer, ok := w.ask(t, prompt, ipc.WaitSecret, ipc.WantLine); ok {
		w.print(ipc.Stdout, fmt.Sprintf("%d bytes\n", len(bytes.TrimSuffix(answer, []byte("\n")))))
	}
	return nil
}

func sleep(_ *worker, t *turn, argument string) *ipc.RuntimeError {
	var over <-chan time.Time
	if argument != "" {
		d, err := time.ParseDuration(argument)
		if err != nil {
			return &ipc.RuntimeError{Name: "ValueError", Message: err.Error()}
		}
		over = time.After(d)
	}
	select {
	case <-t.stop:
	case <-over:
	}
	return nil
}

func until(_ *worker, t *turn, path string) *ipc.RuntimeError {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-t.stop:
			return nil
		case <-again.C:
		}
	}
}

func busy(w *worker, t *turn, word string) *ipc.RuntimeError {
	w.mu.Lock()
	t.hard = true
	w.mu.Unlock()
	w.print(ipc.Stdout, cmp.Or(word, "busy")+"\n")
	<-t.stop
	return nil
}

func stuck(w *worker, _ *turn, _ string) *ipc.RuntimeError {
	return w.stickWith("stuck")
}

func ignore(w *worker, _ *turn, _ string) *ipc.RuntimeError {
	signal.Ignore(os.Interrupt, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE)
	return w.stickWith("ignoring")
}

// stickWith says the word only when no frame has an effect any more: a test that has seen it may
// send one.
func (w *worker) stickWith(word string) *ipc.RuntimeError {
	w.mu.Lock()
	w.stuck = true
	w.mu.Unlock()
	w.print(ipc.Stdout, word+"\n")
	programs.Forever()
	return nil
}

func sigint(w *worker, _ *turn, owner string) *ipc.RuntimeError {
	w.mu.Lock()
	w.owner = ipc.SigintOwner(owner)
	w.mu.Unlock()
	w.send(ipc.Sigint{Owner: ipc.SigintOwner(owner)})
	return nil
}

func progress(w *worker, t *turn, _ string) *ipc.RuntimeError {
	total := 3.0
	for i := range 3 {
		w.send(ipc.Progress{Turn: t.id, Progress: float64(i + 1), Total: &total, Message: "working"})
	}
	return nil
}

func create(w *worker, _ *turn, path string) *ipc.RuntimeError {
	f, err := os.Create(path)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		w.print(ipc.Stdout, "made\n")
	}
	return fail(0, err)
}

func took(w *worker, t *turn, argument string) *ipc.RuntimeError {
	number, prompt, _ := strings.Cut(argument, " ")
	line, err := strconv.ParseUint(number, 10, 64)
	if err == nil {
		w.send(ipc.InputLine{Turn: t.id, Prompt: prompt, Line: line})
	}
	return fail(0, err)
}

func raise(_ *worker, _ *turn, argument string) *ipc.RuntimeError {
	name, message, _ := strings.Cut(argument, " ")
	return &ipc.RuntimeError{Name: name, Message: message}
}

func leaveBehind(w *worker, _ *turn, _ string) *ipc.RuntimeError {
	pid, err := leave()
	if err == nil {
		w.print(ipc.Stdout, fmt.Sprintln(pid))
	}
	return fail(0, err)
}

func environment(w *worker, _ *turn, name string) *ipc.RuntimeError {
	value, ok := os.LookupEnv(name)
	if !ok {
		value = "<unset>"
	}
	w.print(ipc.Stdout, value+"\n")
	return nil
}

func exit(w *worker, _ *turn, argument string) *ipc.RuntimeError {
	code := int64(number(argument))
	os.Exit(w.end(ipc.EndExit, &code))
	return nil
}

func sendBytes(b []byte) command {
	return func(w *worker, _ *turn, _ string) *ipc.RuntimeError {
		w.write(b)
		return nil
	}
}
