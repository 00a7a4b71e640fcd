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

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/ipc"
)

// pixelPNG is a PNG image of one pixel.
const pixelPNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// interruptedError returns the error of an interrupted turn.
func interruptedError() *ipc.RuntimeError {
	return &ipc.RuntimeError{Name: "Interrupted", Message: ""}
}

// runScript runs the commands of text until one fails or the turn is interrupted. unrun counts the
// remaining lines.
func (w *fakeWorker) runScript(t *workerTurn, text string) (failure *ipc.RuntimeError, unrun int) {
	lines := slices.Collect(strings.Lines(text))
	for i, line := range lines {
		name, argument, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if name == "" {
			continue
		}
		if w.isStopping() {
			return nil, 0
		}
		if run, ok := scriptCommands()[name]; ok {
			failure = run(w, t, argument)
		} else {
			failure = &ipc.RuntimeError{Name: "SyntaxError", Message: "no command " + strconv.Quote(name)}
		}
		if t.isInterrupted() {
			failure = interruptedError()
		}
		if failure != nil {
			w.printText(ipc.Stderr, failure.Name+": "+failure.Message+"\n")
			return failure, len(lines) - i - 1
		}
	}
	return nil, 0
}

// A scriptCommand runs a command of a script with its argument. An error ends the script.
type scriptCommand func(w *fakeWorker, t *workerTurn, argument string) *ipc.RuntimeError

func commandNames() []string { return slices.Collect(maps.Keys(scriptCommands())) }

// scriptCommands returns the commands of a script, which the package comment describes.
func scriptCommands() map[string]scriptCommand {
	return map[string]scriptCommand{
		"print": func(w *fakeWorker, _ *workerTurn, a string) *ipc.RuntimeError {
			w.printText(ipc.Stdout, a+"\n")
			return nil
		},
		"err": func(w *fakeWorker, _ *workerTurn, a string) *ipc.RuntimeError {
			w.printText(ipc.Stderr, a+"\n")
			return nil
		},
		"late": func(w *fakeWorker, _ *workerTurn, a string) *ipc.RuntimeError {
			w.lateTexts = append(w.lateTexts, a)
			return nil
		},
		"bulk":  writeBulk,
		"flood": printFlood,
		"raw": func(_ *fakeWorker, _ *workerTurn, a string) *ipc.RuntimeError {
			return turnError(os.Stdout.WriteString(a + "\n"))
		},
		"image":  showImage,
		"result": showResult,
		"more": func(w *fakeWorker, _ *workerTurn, a string) *ipc.RuntimeError {
			w.printAs(ipc.Stdout, ipc.TextResult, a+"\n")
			return nil
		},
		"trace": func(w *fakeWorker, _ *workerTurn, a string) *ipc.RuntimeError {
			w.printAs(ipc.Stderr, ipc.TextTraceback, a+"\n")
			return nil
		},
		"display": showDisplay,
		"comm": func(w *fakeWorker, _ *workerTurn, a string) *ipc.RuntimeError {
			w.sendFrame(ipc.Display{Data: map[string][]byte{"application/vnd.turnstone.comm+json": []byte(a)}, Kind: ipc.DisplayShown})
			return nil
		},
		"clear": func(w *fakeWorker, _ *workerTurn, _ string) *ipc.RuntimeError { w.sendFrame(ipc.Clear{}); return nil },
		"silent": func(w *fakeWorker, t *workerTurn, _ string) *ipc.RuntimeError {
			w.printText(ipc.Stdout, fmt.Sprintln(t.silent))
			return nil
		},
		"dialect": func(w *fakeWorker, t *workerTurn, _ string) *ipc.RuntimeError {
			w.printText(ipc.Stdout, cmp.Or(string(t.dialect), "none")+"\n")
			return nil
		},
		"noexit": func(w *fakeWorker, t *workerTurn, _ string) *ipc.RuntimeError {
			w.printText(ipc.Stdout, fmt.Sprintln(t.noExit))
			return nil
		},
		"wait":     requestLine,
		"secret":   requestSecret,
		"took":     acceptLine,
		"create":   createFile,
		"shell":    runShellPrompt,
		"all":      requestAll,
		"sleep":    sleepInterruptibly,
		"until":    awaitFile,
		"busy":     runBusy,
		"stuck":    becomeStuck,
		"ignore":   ignoreAll,
		"sigint":   setSigintOwner,
		"progress": reportProgress,
		"error":    raiseError,
		"call":     runCall,
		"group":    runCallGroup,
		"rawcall":  runRawCall,
		"uncall":   runCancelCall,
		"child":    func(w *fakeWorker, t *workerTurn, a string) *ipc.RuntimeError { return w.echoFromChild(t, a) },
		"sh":       func(w *fakeWorker, t *workerTurn, a string) *ipc.RuntimeError { return w.runChild(t, "sh", "-c", a) },
		"readtty":  func(w *fakeWorker, t *workerTurn, _ string) *ipc.RuntimeError { return w.runChild(t, "head", "-n1") },
		"fork":     leaveBehind,
		"env":      printVariable,
		"cwd":      func(w *fakeWorker, _ *workerTurn, _ string) *ipc.RuntimeError { return printDirectory(w) },
		"wide":     printWide,
		"pid": func(w *fakeWorker, _ *workerTurn, _ string) *ipc.RuntimeError {
			w.printText(ipc.Stdout, fmt.Sprintln(os.Getpid()))
			return nil
		},
		"exit":      exitSession,
		"die":       func(_ *fakeWorker, _ *workerTurn, a string) *ipc.RuntimeError { os.Exit(parseNumber(a)); return nil },
		"crash":     func(_ *fakeWorker, _ *workerTurn, a string) *ipc.RuntimeError { return turnError(0, dieBy(a)) },
		"garbage":   sendBytes(encodeFrame("garbage")),
		"oversize":  sendBytes([]byte{0xff, 0xff, 0xff, 0xff}),
		"wrongtype": sendBytes(encodeFrame("\x84\xa4type\xa4idle\xa4turn\xa11\xa6prompt\xa0\xa7outcome\xa2ok")),
	}
}

func turnError(_ int, err error) *ipc.RuntimeError {
	if err == nil {
		return nil
	}
	return &ipc.RuntimeError{Name: "OSError", Message: err.Error()}
}

func parseNumber(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// numberedLines returns n bytes of numbered lines.
func numberedLines(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%063d\n", i)
	}
	return b.Bytes()[:n]
}

func writeBulk(w *fakeWorker, t *workerTurn, argument string) *ipc.RuntimeError {
	for part := range slices.Chunk(numberedLines(parseNumber(argument)), ipc.MaxOutputBytes) {
		if t.isInterrupted() {
			break
		}
		w.writeOutput(ipc.Stdout, part)
	}
	return nil
}

func printFlood(w *fakeWorker, t *workerTurn, argument string) *ipc.RuntimeError {
	for part := range slices.Chunk(numberedLines(parseNumber(argument)), 4<<10) {
		if t.isInterrupted() {
			break
		}
		w.printText(ipc.Stdout, string(part))
	}
	return nil
}

// printWide prints numbered lines of 200 characters of three bytes each.
func printWide(w *fakeWorker, _ *workerTurn, argument string) *ipc.RuntimeError {
	text := strings.Repeat("語", 200)
	for i := range parseNumber(argument) {
		w.printText(ipc.Stdout, fmt.Sprintf("%6d %s\n", i+1, text))
	}
	return nil
}

func printDirectory(w *fakeWorker) *ipc.RuntimeError {
	dir, err := os.Getwd()
	w.printText(ipc.Stdout, dir+"\n")
	return turnError(0, err)
}

func showImage(w *fakeWorker, _ *workerTurn, source string) *ipc.RuntimeError {
	data, err := base64.StdEncoding.DecodeString(pixelPNG)
	w.sendFrame(ipc.Image{MIME: "image/png", Data: data, Source: source, Update: source != "", Title: "a pixel"})
	return turnError(0, err)
}

// showResult echoes a value.
func showResult(w *fakeWorker, _ *workerTurn, text string) *ipc.RuntimeError {
	w.printPart(ipc.Output{Stream: ipc.Stdout, Kind: ipc.TextResult, Begins: true, Data: []byte(text + "\n")})
	w.sendFrame(ipc.Display{Data: displayBundle(text), Kind: ipc.DisplayResult})
	return nil
}

func showDisplay(w *fakeWorker, _ *workerTurn, argument string) *ipc.RuntimeError {
	id, text, _ := strings.Cut(argument, " ")
	id, update := strings.CutPrefix(id, "+")
	if size, isSize := strings.CutPrefix(text, "*"); isSize {
		text = string(numberedLines(parseNumber(size)))
	}
	w.sendFrame(ipc.Display{Data: displayBundle(text), ID: id, Update: update, Kind: ipc.DisplayShown})
	return nil
}

func displayBundle(text string) map[string][]byte {
	return map[string][]byte{"text/plain": []byte(text), "text/html": []byte("<b>" + text + "</b>")}
}

func requestLine(w *fakeWorker, t *workerTurn, prompt string) *ipc.RuntimeError {
	if answer, ok := w.requestInput(t, prompt, ipc.WaitLine, ipc.WantLine); ok {
		w.printAnswer(answer)
	}
	return nil
}

func runShellPrompt(w *fakeWorker, t *workerTurn, prompt string) *ipc.RuntimeError {
	w.mu.Lock()
	t.ignoresLevel1 = true
	w.mu.Unlock()
	for {
		answer, ok := w.requestInput(t, prompt, ipc.WaitDebugger, ipc.WantLine)
		if !ok {
			return nil
		}
		w.printAnswer(answer)
	}
}

func requestAll(w *fakeWorker, t *workerTurn, prompt string) *ipc.RuntimeError {
	if answer, ok := w.requestInput(t, prompt, ipc.WaitLine, ipc.WantAll); ok {
		w.printAnswer(answer)
	}
	return nil
}

func (w *fakeWorker) printAnswer(answer []byte) {
	if answer == nil {
		answer = []byte("<eof>")
	}
	w.printText(ipc.Stdout, strings.TrimSuffix(string(answer), "\n")+"\n")
}

func requestSecret(w *fakeWorker, t *workerTurn, prompt string) *ipc.RuntimeError {
	if answer, ok := w.requestInput(t, prompt, ipc.WaitSecret, ipc.WantLine); ok {
		w.printText(ipc.Stdout, fmt.Sprintf("%d bytes\n", len(bytes.TrimSuffix(answer, []byte("\n")))))
	}
	return nil
}

func sleepInterruptibly(_ *fakeWorker, t *workerTurn, argument string) *ipc.RuntimeError {
	var timeout <-chan time.Time
	if argument != "" {
		d, err := time.ParseDuration(argument)
		if err != nil {
			return &ipc.RuntimeError{Name: "ValueError", Message: err.Error()}
		}
		timeout = time.After(d)
	}
	select {
	case <-t.stop:
	case <-timeout:
	}
	return nil
}

func awaitFile(_ *fakeWorker, t *workerTurn, path string) *ipc.RuntimeError {
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

func runBusy(w *fakeWorker, t *workerTurn, word string) *ipc.RuntimeError {
	w.mu.Lock()
	t.ignoresLevel1 = true
	w.mu.Unlock()
	w.printText(ipc.Stdout, cmp.Or(word, "busy")+"\n")
	<-t.stop
	return nil
}

func becomeStuck(w *fakeWorker, _ *workerTurn, _ string) *ipc.RuntimeError {
	return w.reportStuck("stuck")
}

func ignoreAll(w *fakeWorker, _ *workerTurn, _ string) *ipc.RuntimeError {
	signal.Ignore(os.Interrupt, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE)
	return w.reportStuck("ignoring")
}

// reportStuck prints the word only when frames no longer have an effect, so a test that has seen it
// may send one.
func (w *fakeWorker) reportStuck(word string) *ipc.RuntimeError {
	w.mu.Lock()
	w.stuck = true
	w.mu.Unlock()
	w.printText(ipc.Stdout, word+"\n")
	testexec.BlockForever()
	return nil
}

func setSigintOwner(w *fakeWorker, _ *workerTurn, owner string) *ipc.RuntimeError {
	w.mu.Lock()
	w.owner = ipc.SigintOwner(owner)
	w.mu.Unlock()
	w.sendFrame(ipc.Sigint{Owner: ipc.SigintOwner(owner)})
	return nil
}

func reportProgress(w *fakeWorker, t *workerTurn, _ string) *ipc.RuntimeError {
	total := 3.0
	for i := range 3 {
		w.sendFrame(ipc.Progress{Turn: t.id, Progress: float64(i + 1), Total: &total, Message: "working"})
	}
	return nil
}

func createFile(w *fakeWorker, _ *workerTurn, path string) *ipc.RuntimeError {
	f, err := os.Create(path)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		w.printText(ipc.Stdout, "made\n")
	}
	return turnError(0, err)
}

func acceptLine(w *fakeWorker, t *workerTurn, argument string) *ipc.RuntimeError {
	number, prompt, _ := strings.Cut(argument, " ")
	line, err := strconv.ParseUint(number, 10, 64)
	if err == nil {
		w.sendFrame(ipc.InputLine{Turn: t.id, Prompt: prompt, Line: line})
	}
	return turnError(0, err)
}

func raiseError(_ *fakeWorker, _ *workerTurn, argument string) *ipc.RuntimeError {
	name, message, _ := strings.Cut(argument, " ")
	return &ipc.RuntimeError{Name: name, Message: message}
}

func leaveBehind(w *fakeWorker, _ *workerTurn, _ string) *ipc.RuntimeError {
	pid, err := leaveProcess()
	if err == nil {
		w.printText(ipc.Stdout, fmt.Sprintln(pid))
	}
	return turnError(0, err)
}

func printVariable(w *fakeWorker, _ *workerTurn, name string) *ipc.RuntimeError {
	value, ok := os.LookupEnv(name)
	if !ok {
		value = "<unset>"
	}
	w.printText(ipc.Stdout, value+"\n")
	return nil
}

func exitSession(w *fakeWorker, _ *workerTurn, argument string) *ipc.RuntimeError {
	code := int64(parseNumber(argument))
	os.Exit(w.sendSessionEnd(ipc.EndExit, &code))
	return nil
}

func sendBytes(b []byte) scriptCommand {
	return func(w *fakeWorker, _ *workerTurn, _ string) *ipc.RuntimeError {
		w.writeRaw(b)
		return nil
	}
}
