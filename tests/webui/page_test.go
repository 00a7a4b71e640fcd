//go:build unix

package webui

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/chromedp/chromedp"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
)

const storyCode = `import sys
def mean(values):
    """The mean of some numbers."""
    return sum(values) / len(values)  # of all

print(f"mean: {mean([1, 2, 3.5]):.2f}")
print("\x1b[32mgreen\x1b[0m and \x1b[1;31mbold red\x1b[0m")
print("careful", file=sys.stderr)`

func TestPage(t *testing.T) {
	t.Parallel()

	t.Run("shows a session while it runs", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openSession("main")
		s.openSession("other")
		s.execCode("main", storyCode)
		s.execCode("main", "[n ** 2 for n in range(8)]")
		s.execCode("main", "1 / 0")
		s.execCode("other", "6 * 7")
		s.startPage()
		b.openAddress(s.lastLink())
		b.waitText("other")
		b.waitUntil("both sessions are idle", `document.querySelectorAll(".sessions .dot.idle").length === 2`)
		b.takeScreenshot("list")
		b.clickElement(".sessions a", "main")
		b.waitText("ZeroDivisionError")
		b.waitText("bold red")
		b.waitUntil("the code has colours", `document.querySelector(".turn .k-keyword")`)
		b.waitUntil("the text has colours", `document.querySelector(".turn .f-2")?.textContent === "green"`)
		b.takeScreenshot("session-light")
		b.setDark(true)
		b.takeScreenshot("session-dark")
		b.setSize(360, 740)
		b.waitUntil("nothing is wider than the window", `document.documentElement.scrollWidth <= 360`)
		b.takeScreenshot("session-360")
		b.setSize(1100, 800)
		b.setDark(false)
		s.execCode("main", "print('live ' * 3)")
		b.waitText("live live live")
		b.typeInto("textarea", "40 + 2")
		b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
		b.waitUntil("the turn is shown as ada's", `[...document.querySelectorAll(".turn")].some((t) => t.innerText.includes("ada") && t.innerText.includes("42"))`)
	})

	// The link of repl view NAME leads to a session before the page knows anything about it.
	t.Run("highlights every turn after a link to the session", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openSession("main")
		for range 3 {
			s.execCode("main", "import sys")
		}
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitUntil("each turn has colours", `document.querySelectorAll(".turn .k-keyword").length === 3`)
	})

	t.Run("answers input requests and hides secrets", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openSession("main")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitText("Started")
		b.typeInto("textarea", "import getpass\nname = input('name? ')\nkey = getpass.getpass('key: ')\nprint(name, len(key))")
		b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
		b.waitUntil("it asks for a name", `document.querySelector(".question .prompt")?.innerText.includes("name?")`)
		b.takeScreenshot("wait")
		b.waitUntil("the field has the focus", `document.activeElement.id === "answer"`)
		b.pressKeys("Ada\r")
		b.waitUntil("it asks for a secret", `document.querySelector("#answer")?.type === "password"`)
		b.pressKeys("tops3cret")
		b.takeScreenshot("secret")
		b.pressKeys("\r")
		b.waitText("Ada 9")
		b.waitUntil("the question is gone", `!document.querySelector("#answer")`)
		if evalExpression[bool](b, `document.documentElement.outerHTML.includes("tops3cret") || [...document.querySelectorAll("input, textarea")].some((f) => f.value.includes("tops3cret"))`) {
			t.Error("the secret is still in the document after the answer")
		}
		b.waitUntil("the focus is in the code field", `document.activeElement.tagName === "TEXTAREA"`)
	})

	t.Run("interrupts and restarts", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openSession("main")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitText("Started")
		b.typeInto("textarea", "x = 1\nwhile True: pass")
		b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
		b.waitUntil("it runs", `document.querySelector(".dot.running")`)
		b.takeScreenshot("running")
		b.pressKeys("c", chromedp.KeyModifiers(chromedp.ModifierCtrl))
		b.waitText("ada interrupted")
		b.waitUntil("it is idle", `document.querySelector(".dot.idle")`)
		evalExpression[bool](b, `(window.confirm = () => true, true)`)
		b.waitUntil("the menu is open", `document.querySelector(".menu .items button")`)
		evalExpression[bool](b, `([...document.querySelectorAll(".menu .items button")].find((e) => e.textContent.includes("Restart")).click(), true)`)
		b.waitText("Restarted")
		b.waitText("The runtime ended")
	})

	t.Run("finds text that is not loaded", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openSession("main")
		s.execCode("main", "needle = 'hay'")
		for range 30 {
			s.execCode("main", "print('line\\n' * 30)")
		}
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitUntil("the last turn is shown", `document.querySelector(".turn .number") && [...document.querySelectorAll(".turn .number")].at(-1).textContent === "31"`)
		if evalExpression[bool](b, `document.body.innerText.includes("needle")`) {
			t.Fatal("all turns are in the document")
		}
		b.clickElement("button", "Search")
		b.typeInto(".find input", "needle")
		b.waitUntil("it is found", `document.querySelector(".hits li")`)
		b.pressKeys("\r")
		b.waitUntil("its turn is shown", `[...document.querySelectorAll(".turn .code")].some((c) => c.innerText.includes("needle"))`)
		b.takeScreenshot("search")
	})

	// It logs the duration, and asserts nothing about it.
	t.Run("opens a long session with few elements", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openSession("long")
		for range 100 {
			s.execCode("long", "import sys\nfor i in range(1000): sys.stdout.write(f'line {i} of a long session\\n'); sys.stdout.flush()")
		}
		s.startPage("long")
		b.openAddress(s.lastLink())
		b.waitUntil("the last turn is shown", `[...document.querySelectorAll(".turn .number")].at(-1)?.textContent === "100" && document.querySelector(".turn .out")`)
		evalExpression[bool](b, `(location.reload(), true)`)
		b.waitUntil("the last turn is shown again", `[...document.querySelectorAll(".turn .number")].at(-1)?.textContent === "100" && [...document.querySelectorAll(".turn .out")].length > 0`)
		b.waitUntil("its time is known", `performance.getEntriesByType("resource").some((r) => r.name.includes("/api/read") && r.responseEnd > 0)`)
		t.Logf("first contents %.0f ms after navigation", evalExpression[float64](b, `performance.getEntriesByType("resource").filter((r) => r.name.includes("/api/read"))[0].responseEnd`))
		const frames = `(async (scroll) => {
		const times = [];
		let last = performance.now();
		for (let i = 0; i < 120; i++) {
			scroll.dispatchEvent(new WheelEvent("wheel", {deltaY: -1})); // otherwise the page follows the end
			scroll.scrollTop = (i * 7919) % scroll.scrollHeight;
			await new Promise(requestAnimationFrame);
			const now = performance.now();
			times.push(now - last);
			last = now;
		}
		return times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
	})`
		jumping := evalExpression[float64](b, frames+`(document.querySelector(".scroll"))`)
		b.waitUntil("the target of the jump has its contents", `[...document.querySelectorAll(".turn")].every((turn) => turn.querySelector(".out"))`)
		if n := evalExpression[float64](b, `document.querySelectorAll("*").length`); n > 3000 {
			t.Errorf("the document has %v elements", n)
		}
		empty := evalExpression[float64](b, `((page, box, tall) => {
		box.style.cssText = "position: fixed; inset: 0; overflow: auto; background: white";
		tall.style.height = page.scrollHeight + "px";
		box.append(tall);
		document.body.append(box);
		return `+frames+`(box);
	})(document.querySelector(".scroll"), document.createElement("div"), document.createElement("div"))`)
		t.Logf("p95 of 120 frames while jumping: %.1f ms, %.1f ms in an empty element of the same height", jumping, empty)
	})

	t.Run("lets the user decide about a permission", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		work, one, two := sandboxcheck.TempDir(t), sandboxcheck.TempDir(t), sandboxcheck.TempDir(t)
		if _, err := s.dialDaemon().CreateSession(t.Context(), protocol.CreateParams{Name: "held", Dir: work, Sandbox: "workspace", AskUser: true}); err != nil {
			t.Skip("no sandbox available: ", err)
		}
		write := func(dir string) string { return "open('" + filepath.Join(dir, "file") + "', 'w').write('x')" }
		reply := s.execCode("held", write(one))
		if reply.InputRequest == nil || reply.InputRequest.Permission == nil {
			t.Fatalf("no permission is requested: %s", reply.Text())
		}
		s.startPage("held")
		b.openAddress(s.lastLink())
		b.waitUntil("it asks", `document.querySelector(".permit")?.innerText.includes("file")`)
		b.takeScreenshot("permission")
		b.pressKeys("y\r ") // a key makes no decision
		b.waitUntil("the page still asks", `document.querySelector(".permit")`)
		b.clickElement(".permit button", "Refuse")
		b.waitText("OSError")
		if evalExpression[bool](b, `document.body.innerText.includes("[object")`) {
			t.Error("the result is not shown as text")
		}
		s.waitOver("held")             // the text of an error is shown before its turn ends
		s.execCode("held", write(one)) // a refusal is remembered
		evalExpression[bool](b, `(window.allow = () => {
			const button = [...document.querySelectorAll(".permit button")].find((b) => b.innerText === "Allow in this session");
			button?.dispatchEvent(new MouseEvent("click", {bubbles: true, detail: 1}));
			return Boolean(button?.disabled); // after its decision
		}, new MutationObserver((all, o) => { if (document.querySelector(".permit")) { o.disconnect(); window.soon = allow(); } }).observe(document.body, {childList: true, subtree: true}), true)`)
		reply = s.execCode("held", write(two))
		if reply.InputRequest == nil {
			t.Fatalf("no permission is requested: %s", reply.Text())
		}
		b.waitUntil("the page asks again", `document.querySelector(".permit")?.innerText.includes("file")`)
		if evalExpression[bool](b, "soon") {
			t.Error("a click at the moment when the question appears allows it")
		}
		b.waitUntil("a later click allows it", "allow()")
		b.waitText("ada allowed")
		if !evalExpression[bool](b, `document.body.innerText.includes("ada refused: create ")`) {
			t.Error("the page does not say who refused the first call")
		}
		b.waitUntil("it is idle", `document.querySelector(".dot.idle")`)
		if _, err := os.Stat(filepath.Join(two, "file")); err != nil {
			t.Error(err)
		}
		three := sandboxcheck.TempDir(t)
		for _, name := range []string{"one", "other"} {
			if err := os.WriteFile(filepath.Join(three, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.runCode(fmt.Sprintf("open(%q, 'w').write('first'); open(%q, 'w').write('second')", filepath.Join(three, "one"), filepath.Join(three, "other")))
		b.clickElement(".permit button", "Allow only this file")
		b.waitUntil("another file of its directory is another question", `document.querySelector(".permit")?.innerText.includes("other")`)
		if text, err := os.ReadFile(filepath.Join(three, "one")); string(text) != "first" && string(text) != "" {
			t.Errorf("got %q, %v", text, err)
		}
		b.clickElement(".permit button", "Refuse")
		b.waitText("ada refused: write ")
	})

	t.Run("reads the turns again after an answer that failed", func(t *testing.T) {
		t.Parallel()
		s, b := openMain(t, "print('before')")
		b.waitText("before")
		_ = evalExpression[bool](b, `(() => {
			const answer = window.fetch;
			window.fetch = (address, o) => {
				if (!String(address).startsWith("/api/outline")) return answer(address, o);
				window.fetch = answer;
				return Promise.reject(new TypeError("no answer"));
			};
			return true;
		})()`)
		if err := s.dialDaemon().CloseSession(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		s.openSession("main")
		s.execCode("main", "print('after')")
		b.waitUntil("the page shows the new session", `document.querySelector(".turns").innerText.includes("after")`)
	})

	t.Run("reconnects after the daemon was restarted", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openSession("main")
		s.execCode("main", "print('before')")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitText("before")
		other := b.openSiblingTab()
		other.openAddress(s.origin + "/")
		other.waitUntil("the other tab has the list", `document.querySelectorAll(".sessions li").length === 1`)
		s.stop()
		b.waitUntil("the page reports the missing daemon", `!document.querySelector(".banner").hidden`)
		late := b.openSiblingTab()
		late.openAddress(s.origin + "/s/main")
		late.waitUntil("a page that opens now does, too", `document.querySelector(".banner")?.hidden === false`)
		s.stop = s.startDaemon()
		s.openSession("main")
		s.execCode("main", "print('after')")
		b.waitText("after")
		b.waitUntil("the page is complete again", `document.querySelector(".banner").hidden && !document.body.innerText.includes("before")`)
		late.waitText("after")
		other.waitUntil("the other tab as well", `document.querySelectorAll(".sessions li").length === 1 && document.querySelector(".banner").hidden`)
		again := openTab(t)
		again.openAddress(s.lastLink())
		again.waitText("has been used")
	})
}
