//go:build unix

package webui

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// testTimeout bounds every wait for a condition. A test that comes near it has failed.
const testTimeout = 4 * time.Minute

// shotsEnv names a directory for screenshots.
const shotsEnv = "TURNSTONE_TEST_SHOTS"

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{BuildRepl: true, AtEnd: stopBrowser})
}

// chromium starts the browser of all tests once. Each test has its own browser context with its own
// cookies.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, fmt.Errorf("Chromium is not installed: scripts/setup-dev installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1100, 800))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // otherwise it refuses to run as root
	}
	ctx, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		cancel()
		return nil, fmt.Errorf("chromium does not start: %w", err)
	}
	return ctx, nil
})

func stopBrowser() {
	if ctx, err := chromium(); err == nil {
		_ = chromedp.Cancel(ctx)
	}
}

// A testDaemon is a daemon with its sessions, and a web UI.
type testDaemon struct {
	t      *testing.T
	dir    string
	socket string
	links  *bufio.Scanner
	stop   func() // ends the daemon
	origin string
}

func (d *testDaemon) newCommand(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), replbin.Path(), args...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "TURNSTONE_SOCKET="+d.socket, "TMPDIR="+d.dir, "XDG_STATE_HOME="+filepath.Join(d.dir, "state"),
		"XDG_CONFIG_HOME="+filepath.Join(d.dir, "config"), "VIRTUAL_ENV=", "CONDA_PREFIX=", "PYTHONSTARTUP=", "PYTHONPATH=", "DISPLAY=", "WAYLAND_DISPLAY=")
	return cmd
}

// newTestDaemon starts a daemon. It does not require Chromium.
func newTestDaemon(t *testing.T) *testDaemon {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	dir := testexec.ShortDir(t)
	s := &testDaemon{t: t, dir: dir, socket: filepath.Join(dir, "s")}
	s.stop = s.startDaemon()
	return s
}

// startDaemon starts the daemon, and returns a function that stops it.
func (d *testDaemon) startDaemon() (stop func()) {
	d.t.Helper()
	cmd := d.newCommand("serve")
	errs, err := cmd.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	lines := bufio.NewScanner(errs)
	for lines.Scan() && !strings.Contains(lines.Text(), "serving") {
	}
	go func() {
		for lines.Scan() {
		}
	}()
	stop = sync.OnceFunc(func() {
		_ = d.newCommand("daemon", "stop").Run()
		_ = cmd.Wait()
	})
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		stop()
	})
	return stop
}

// envValue returns a variable of the daemon's environment, which clients use to find and verify it.
func (d *testDaemon) envValue(name string) string {
	return map[string]string{"TURNSTONE_SOCKET": d.socket, "XDG_STATE_HOME": filepath.Join(d.dir, "state")}[name]
}

// dialDaemon connects to the daemon.
func (d *testDaemon) dialDaemon() *client.Client {
	d.t.Helper()
	c, err := client.Dial(d.t.Context(), client.DefaultDialer(d.envValue))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// openSession opens a Python session.
func (d *testDaemon) openSession(name string) {
	d.t.Helper()
	if _, err := d.dialDaemon().CreateSession(d.t.Context(), protocol.CreateParams{Name: name}); err != nil {
		d.t.Fatal(err)
	}
}

// execCode runs code in a session on behalf of an agent, until it ends or requests input.
func (d *testDaemon) execCode(name, code string) session.Reply {
	d.t.Helper()
	reply, err := d.dialDaemon().StartTurn(d.t.Context(), protocol.StartParams{Session: name, Input: code, Author: "claude", WaitMS: testTimeout.Milliseconds()})
	if err != nil {
		d.t.Fatal(err)
	}
	return reply
}

// waitOver waits until the session runs no code.
func (d *testDaemon) waitOver(name string) {
	d.t.Helper()
	if _, err := d.dialDaemon().WaitTurn(d.t.Context(), protocol.WaitParams{Session: name, WaitMS: testTimeout.Milliseconds()}); err != nil {
		d.t.Fatal(err)
	}
}

// startPage starts the web UI.
func (d *testDaemon) startPage(args ...string) {
	d.t.Helper()
	cmd := d.newCommand(append([]string{"view", "--no-open", "--as", "ada"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd.Stderr = &bytes.Buffer{}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	d.links = bufio.NewScanner(out)
	if !d.links.Scan() {
		d.t.Fatalf("repl view prints no link: %v", cmd.Stderr)
	}
	d.origin, _, _ = strings.Cut(d.links.Text(), "/in#")
}

// lastLink returns the last printed link.
func (d *testDaemon) lastLink() string { return d.links.Text() }

// A browserTab is a tab of the test's browser.
type browserTab struct {
	t   *testing.T
	ctx context.Context
}

// openTab opens a tab with its own cookies.
func openTab(t *testing.T) *browserTab {
	t.Helper()
	all, err := chromium()
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := chromedp.NewContext(all, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return &browserTab{t, ctx}
}

// openSiblingTab opens another tab with the same cookies.
func (b *browserTab) openSiblingTab() *browserTab {
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	return &browserTab{b.t, ctx}
}

func (b *browserTab) runSteps(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// openAddress loads an address. It must be the first call on a tab, because chromedp closes the tab
// with the context of that call.
func (b *browserTab) openAddress(address string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(address)); err != nil {
		b.t.Fatal(err)
	}
}

// evalExpression returns the value of an expression, which may be a promise.
func evalExpression[T any](b *browserTab, expression string) T {
	b.t.Helper()
	v, err := tryEval[T](b, expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func tryEval[T any](b *browserTab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, testTimeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, func(p *runtime.EvaluateParams) { p.AwaitPromise = pointerTo(true) }))
}

func pointerTo[T any](v T) *T { return &v }

// waitUntil waits until an expression is true.
func (b *browserTab) waitUntil(what, expression string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(testTimeout)
	for {
		if ok, err := tryEval[bool](b, "Boolean("+expression+")"); err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			text, _ := tryEval[string](b, "document.body.innerText.slice(0, 3000)")
			b.takeScreenshot("failed-" + strconv.FormatInt(time.Now().UnixNano(), 36))
			b.t.Fatalf("timeout: %s (%s); the page shows:\n%s", what, expression, text)
		}
	}
}

// waitText waits until the page contains a text.
func (b *browserTab) waitText(text string) {
	b.t.Helper()
	b.waitUntil("the page shows "+strconv.Quote(text), "document.body.innerText.includes("+strconv.Quote(text)+")")
}

// pressKeys types keys.
func (b *browserTab) pressKeys(keys string, options ...chromedp.KeyOption) {
	b.t.Helper()
	b.runSteps(chromedp.KeyEvent(keys, options...))
}

// clickElement clicks the first element with this text.
func (b *browserTab) clickElement(selector, text string) {
	b.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => e.innerText.includes(%q) && e.checkVisibility())", selector, text)
	b.waitUntil("the page has "+text, find)
	evalExpression[bool](b, "("+find+".click(), true)")
}

// typeInto sets the text of a field like a user.
func (b *browserTab) typeInto(selector, text string) {
	b.t.Helper()
	b.waitUntil("the page has "+selector, fmt.Sprintf("document.querySelector(%q)", selector))
	evalExpression[bool](b, fmt.Sprintf("(document.querySelector(%q).focus(), true)", selector))
	b.insertText(text)
}

// insertText inserts text at the focus.
// openMain opens a tab with a new session, main, in which an agent has run code.
func openMain(t *testing.T, code ...string) (*testDaemon, *browserTab) {
	t.Helper()
	s := newTestDaemon(t)
	s.openSession("main")
	for _, c := range code {
		s.execCode("main", c)
	}
	s.startPage("main")
	b := openTab(t)
	b.openAddress(s.lastLink())
	return s, b
}

// runCode runs code in the session that the tab shows.
func (b *browserTab) runCode(code string) {
	b.t.Helper()
	b.typeInto("textarea", code)
	b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
}

func (b *browserTab) insertText(text string) {
	b.t.Helper()
	b.runSteps(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
		return v, err
	})
}

// takeScreenshot saves a screenshot of the page, if screenshots are requested.
func (b *browserTab) takeScreenshot(name string) {
	b.t.Helper()
	dir := os.Getenv(shotsEnv)
	if dir == "" {
		return
	}
	screenshot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), screenshot, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// setSize sets the size of the window.
func (b *browserTab) setSize(width, height int64) {
	b.t.Helper()
	b.runSteps(chromedp.EmulateViewport(width, height))
}

// setDark sets whether the user prefers dark colours.
func (b *browserTab) setDark(dark bool) {
	b.t.Helper()
	b.setMedia("", map[bool]string{true: "dark", false: "light"}[dark])
}

// setMedia shows the page on a screen, or as it is printed.
func (b *browserTab) setMedia(media, scheme string) {
	b.t.Helper()
	b.runSteps(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return v, err
	})
}
