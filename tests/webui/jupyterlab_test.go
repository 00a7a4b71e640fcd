//go:build unix

package webui

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// A jupyterLab is JupyterLab with the kernels of repl, connected to the sessions of a testDaemon.
type jupyterLab struct {
	*testDaemon
	address string // with its port
}

// labToken is set by the test, so that it need not be read from a log.
const labToken = "for-this-test"

// startJupyterLab starts JupyterLab without network access.
func startJupyterLab(t *testing.T, kernels ...string) *jupyterLab {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(cache, "turnstone", "jupyterlab", "bin", "jupyter-lab")
	if _, err := os.Stat(program); err != nil {
		t.Skip("no JupyterLab: scripts/setup-dev installs it into ", filepath.Dir(filepath.Dir(program)))
	}
	l := &jupyterLab{testDaemon: newTestDaemon(t)}
	for _, kernel := range kernels {
		if out, err := l.setDirs(l.newCommand(append([]string{"jupyter", "install"}, strings.Fields(kernel)...)...)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	settings := filepath.Join(l.dir, "jupyter", "lab", "user-settings", "@jupyterlab", "apputils-extension")
	if err := errors.Join(os.MkdirAll(settings, 0o700), os.WriteFile(filepath.Join(settings, "notification.jupyterlab-settings"), []byte(`{"fetchNews": "false", "checkForUpdates": false}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := l.newCommand()
	cmd.Path, cmd.Args = program, []string{program, "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0",
		"--IdentityProvider.token=" + labToken, "--ServerApp.root_dir=" + l.dir,
		"--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.extension_manager=readonly", "--LabApp.expose_app_in_browser=True"}
	errs, err := l.setDirs(cmd).StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	lines := bufio.NewScanner(errs)
	for at := regexp.MustCompile(`http://127\.0\.0\.1:[1-9][0-9]*`); l.address == "" && lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		l.address = at.FindString(lines.Text())
	}
	if l.address == "" {
		_ = cmd.Process.Kill()
		t.Fatalf("JupyterLab does not start:\n%s", log.String())
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		for lines.Scan() {
			log.WriteString(lines.Text() + "\n")
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // an interrupt would ask for confirmation
		<-said
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("JupyterLab's log:\n%s", log.String())
		}
	})
	return l
}

// setDirs directs Jupyter's files into the directory of the test.
func (l *jupyterLab) setDirs(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(cmd.Env, "HOME="+l.dir, "XDG_DATA_HOME="+filepath.Join(l.dir, "data"), "XDG_RUNTIME_DIR=", "MPLCONFIGDIR="+filepath.Join(l.dir, "mpl"),
		"JUPYTER_RUNTIME_DIR="+filepath.Join(l.dir, "r"), "JUPYTER_CONFIG_DIR="+filepath.Join(l.dir, "jupyter"))
	return cmd
}

// openNotebook creates a notebook for a kernel through the launcher, as a user does.
func (l *jupyterLab) openNotebook(b *browserTab, title string) {
	l.t.Helper()
	b.openAddress(l.address + "/lab?reset&token=" + labToken) // a separate workspace for each tab
	b.setSize(1100, 900)
	b.runSteps(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) { // otherwise tabs would take the focus from each other
		_, err = cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return v, err
	})
	card := fmt.Sprintf(`document.querySelector(".jp-LauncherCard[data-category=Notebook][title='%s']")`, title)
	b.waitUntil("the kernel is offered", card)
	evalExpression[bool](b, "("+card+".click(), true)")
	b.waitUntil("the notebook has its kernel", `((w) => w.context.isReady && w.sessionContext.isReady && !w.sessionContext.pendingInput && w.sessionContext.session.kernel.connectionStatus === "connected" && w.sessionContext.session.kernel.status === "idle")(jupyterapp.shell.currentWidget)`)
}

// runCell puts code into the last cell, and runs it by keys. The code is not typed, because on a
// busy machine JupyterLab's editor may count one Enter as two. The cell may already contain a line:
// the character of the key that ran the one before.
func (b *browserTab) runCell(code string) {
	b.t.Helper()
	const cell = "((n) => (n.activeCellIndex = n.widgets.length - 1, n.activeCell))(jupyterapp.shell.currentWidget.content)"
	b.waitUntil("an empty cell has the focus", "("+cell+".editor.focus(), "+cell+".editor.hasFocus() && "+cell+`.model.sharedModel.source.trim() === "")`)
	b.waitUntil("the code is in it", fmt.Sprintf("((c) => c.source === %q || (c.setSource(%[1]q), false))(%s.model.sharedModel)", code, cell))
	b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierShift))
}

// waitOutput waits for an element in an output of the notebook.
func (b *browserTab) waitOutput(what, condition string) {
	b.t.Helper()
	b.waitUntil(what, `[...document.querySelectorAll(".jp-Notebook .jp-OutputArea-output")].some((out) => `+condition+`)`)
}

// waitAnswered waits until no cell waits for its reply.
func (b *browserTab) waitAnswered() {
	b.t.Helper()
	b.waitUntil("no cell waits", `jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === "idle" &&
		jupyterapp.shell.currentWidget.content.widgets.every((cell) => !cell.promptNode?.innerText.includes("*") && cell.model.executionState !== "running")`)
}

func TestJupyterLab(t *testing.T) {
	t.Parallel()

	t.Run("runs, plots, asks and interrupts in a session", func(t *testing.T) {
		t.Parallel()
		python := cmp.Or(os.Getenv("TURNSTONE_TEST_MATPLOTLIB"), "/usr/bin/python3")
		if exec.Command(python, "-c", "import matplotlib").Run() != nil {
			t.Skip("no matplotlib for ", python, ": scripts/setup-dev installs it")
		}
		kernels := []string{"--lang python --python " + python}
		_, noR := exec.LookPath("R")
		if noR == nil {
			kernels = append(kernels, "--lang r")
		}
		b := openTab(t)
		l := startJupyterLab(t, kernels...)
		l.openNotebook(b, "Python (Turnstone)")
		b.runCell("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()")
		b.waitOutput("there is a plot", `out.querySelector("img")?.naturalWidth > 100`)
		b.runCell("name = input('name? ')\nprint('hello', name)")
		b.waitUntil("the cell requests input", `document.querySelector(".jp-Stdin-input")`)
		evalExpression[bool](b, `(document.querySelector(".jp-Stdin-input").focus(), true)`)
		b.insertText("Ada")
		b.pressKeys("\r")
		b.waitOutput("the answer has arrived", `out.innerText.includes("hello Ada")`)
		b.runCell("import time\nprint('started')\nwhile True: time.sleep(0.01)")
		b.waitOutput("it runs", `out.innerText.includes("started")`)
		b.pressKeys("\x1b") // then keys are commands
		b.pressKeys("ii")
		b.waitOutput("the cell was interrupted", `out.innerText.includes("KeyboardInterrupt")`)
		b.waitAnswered() // an earlier run would be aborted with the cell
		b.runCell("print(6 * 7, name)")
		b.waitOutput("it continues", `out.innerText.trim() === "42 Ada"`)
		b.takeScreenshot("jupyterlab-python")
		sessions, err := l.dialDaemon().ListSessions(t.Context())
		if err != nil || len(sessions) != 1 || sessions[0].Turn < 4 {
			t.Errorf("the cells did not run in a session: %+v, %v", sessions, err)
		}

		if noR != nil {
			t.Skip("R is not installed: scripts/setup-dev installs it")
		}
		b = b.openSiblingTab()
		l.openNotebook(b, "R (Turnstone)")
		b.runCell("plot(1:3); cat('plotted', 6 * 7)")
		b.waitOutput("there is a plot", `out.querySelector("img")?.naturalWidth > 100`)
		b.waitOutput("there is text", `out.innerText.includes("plotted 42")`)
		b.takeScreenshot("jupyterlab-r")
	})

	// "Run All" sends all cells at once, and the kernel is faster than the browser.
	t.Run("stops all cells after the first error", func(t *testing.T) {
		t.Parallel()
		b := openTab(t)
		l := startJupyterLab(t, "--lang python --python /usr/bin/python3")
		l.openNotebook(b, "Python (Turnstone)")
		evalExpression[bool](b, `(jupyterapp.shell.currentWidget.content.model.sharedModel.insertCells(0, [{cell_type: "code", source: "1/0"},
		...Array.from({length: 15}, (_, i) => ({cell_type: "code", source: "print('ran', " + i + ")"}))]), true)`)
		b.waitUntil("the cells are there", `jupyterapp.shell.currentWidget.content.widgets.length >= 16`)
		evalExpression[bool](b, `(jupyterapp.commands.execute("notebook:run-all-cells"), true)`)
		b.waitOutput("the first one has failed", `out.innerText.includes("ZeroDivisionError")`)
		b.waitAnswered()
		if ran := evalExpression[int](b, `jupyterapp.shell.currentWidget.content.widgets.filter((cell) => cell.model.type === "code" && cell.model.executionCount !== null).length`); ran != 1 {
			t.Errorf("%d cells ran, want only the failed one", ran)
		}
	})
	// A real front end also checks the versions, the models and the order of messages.
	t.Run("shows widgets that Python moves, also after it has been opened again", func(t *testing.T) {
		t.Parallel()
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		python := filepath.Join(cache, "turnstone", "jupyterlab", "bin", "python3")
		if exec.Command(python, "-c", "import ipywidgets").Run() != nil {
			t.Skip("no ipywidgets for JupyterLab: scripts/setup-dev installs it")
		}
		b := openTab(t)
		l := startJupyterLab(t, "--lang python --python "+python)
		l.openNotebook(b, "Python (Turnstone)")
		b.runCell("import ipywidgets\nbar = ipywidgets.IntProgress(max=100)\nipywidgets.HBox([ipywidgets.Label('work'), bar])")
		b.waitOutput("there is a bar", `out.querySelector(".widget-label")?.innerText === "work" && out.querySelector(".progress-bar")?.style.width === "0%"`)
		b.runCell("import time\nfor i in range(40): bar.value = i + 1\nwhile True: time.sleep(0.01)")
		b.waitOutput("it moves while the cell runs", `out.querySelector(".progress-bar")?.style.width === "40%"`)
		b.pressKeys("\x1b")
		b.pressKeys("ii")
		b.waitOutput("the cell was interrupted", `out.innerText.includes("KeyboardInterrupt")`)
		b.waitAnswered()
		// The command of the menu would ask for another name first, and wait for the answer.
		evalExpression[bool](b, `jupyterapp.shell.currentWidget.context.save().then(() => true)`)
		b.waitUntil("it is saved", `!jupyterapp.shell.currentWidget.context.model.dirty`)
		b.openAddress(l.address + "/lab/tree/Untitled.ipynb?token=" + labToken)
		b.waitOutput("the bar is there again", `out.querySelector(".progress-bar")?.style.width === "40%"`)
		b.runCell("bar.value = 70")
		b.waitOutput("it still moves", `out.querySelector(".progress-bar")?.style.width === "70%"`)
		b.takeScreenshot("jupyterlab-widgets")
	})
}
