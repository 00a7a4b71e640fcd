//go:build unix

package page

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/tests/confined"
)

const story = `import sys
def mean(values):
    """The mean of some numbers."""
    return sum(values) / len(values)  # of all

print(f"mean: {mean([1, 2, 3.5]):.2f}")
print("\x1b[32mgreen\x1b[0m and \x1b[1;31mbold red\x1b[0m")
print("careful", file=sys.stderr)`

func TestPage_ShowsASessionAsItGoesOn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	s.open("main")
	s.open("other")
	s.exec("main", story)
	s.exec("main", "[n ** 2 for n in range(8)]")
	s.exec("main", "1 / 0")
	s.exec("other", "6 * 7")
	s.view()
	b.open(s.link())
	b.sees("other")
	b.until("both sessions are idle", `document.querySelectorAll(".sessions .dot.idle").length === 2`)
	b.shot("list")
	b.click(".sessions a", "main")
	b.sees("ZeroDivisionError")
	b.sees("bold red")
	b.until("the code has colours", `document.querySelector(".turn .k-keyword")`)
	b.until("the text has colours", `document.querySelector(".turn .f-2")?.textContent === "green"`)
	b.shot("session-light")
	b.dark(true)
	b.shot("session-dark")
	b.size(360, 740)
	b.until("nothing is wider than the window", `document.documentElement.scrollWidth <= 360`)
	b.shot("session-360")
	b.size(1100, 800)
	b.dark(false)
	s.exec("main", "print('live ' * 3)")
	b.sees("live live live")
	b.typeInto("textarea", "40 + 2")
	b.press("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.until("the turn is shown as ada's", `[...document.querySelectorAll(".turn")].some((t) => t.innerText.includes("ada") && t.innerText.includes("42"))`)
}

// The link of repl view NAME leads to a session before anything is known of it.
func TestPage_EachTurnHasColoursWhereTheLinkLeadsToTheSession(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	s.open("main")
	for range 3 {
		s.exec("main", "import sys")
	}
	s.view("main")
	b.open(s.link())
	b.until("each turn has colours", `document.querySelectorAll(".turn .k-keyword").length === 3`)
}

func TestPage_AnswersWaitsAndKeepsSecretsOutOfSight(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	s.open("main")
	s.view("main")
	b.open(s.link())
	b.sees("Started")
	b.typeInto("textarea", "import getpass\nname = input('name? ')\nkey = getpass.getpass('key: ')\nprint(name, len(key))")
	b.press("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.until("it asks for a name", `document.querySelector(".question .prompt")?.innerText.includes("name?")`)
	b.shot("wait")
	b.until("the field has the focus", `document.activeElement.id === "answer"`)
	b.press("Ada\r")
	b.until("it asks for a secret", `document.querySelector("#answer")?.type === "password"`)
	b.press("tops3cret")
	b.shot("secret")
	b.press("\r")
	b.sees("Ada 9")
	b.until("the question is gone", `!document.querySelector("#answer")`)
	if eval[bool](b, `document.documentElement.outerHTML.includes("tops3cret") || [...document.querySelectorAll("input, textarea")].some((f) => f.value.includes("tops3cret"))`) {
		t.Error("the secret is in the document after it was given")
	}
	b.until("the focus is where code is written", `document.activeElement.tagName === "TEXTAREA"`)
}

func TestPage_InterruptsAndRestarts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	s.open("main")
	s.view("main")
	b.open(s.link())
	b.sees("Started")
	b.typeInto("textarea", "x = 1\nwhile True: pass")
	b.press("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.until("it runs", `document.querySelector(".dot.running")`)
	b.shot("running")
	b.press("c", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.sees("ada interrupted")
	b.until("it is idle", `document.querySelector(".dot.idle")`)
	eval[bool](b, `(window.confirm = () => true, true)`)
	b.until("there is a menu", `document.querySelector(".menu .items button")`)
	eval[bool](b, `([...document.querySelectorAll(".menu .items button")].find((e) => e.textContent.includes("Restart")).click(), true)`)
	b.sees("Started anew")
	b.sees("The runtime ended")
}

func TestPage_FindsTextThatIsNotInTheDocument(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	s.open("main")
	s.exec("main", "needle = 'hay'")
	for range 30 {
		s.exec("main", "print('line\\n' * 30)")
	}
	s.view("main")
	b.open(s.link())
	b.until("the last turn is shown", `document.querySelector(".turn .number") && [...document.querySelectorAll(".turn .number")].at(-1).textContent === "31"`)
	if eval[bool](b, `document.body.innerText.includes("needle")`) {
		t.Fatal("all turns are in the document")
	}
	b.click("button", "Search")
	b.typeInto(".find input", "needle")
	b.until("it is found", `document.querySelector(".hits li")`)
	b.press("\r")
	b.until("its turn is shown", `[...document.querySelectorAll(".turn .code")].some((c) => c.innerText.includes("needle"))`)
	b.shot("search")
}

// It logs how long that takes, and asserts nothing about time.
func TestPage_OpensALongSessionWithFewElements(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	s.open("long")
	for range 100 {
		s.exec("long", "import sys\nfor i in range(1000): sys.stdout.write(f'line {i} of a long session\\n'); sys.stdout.flush()")
	}
	s.view("long")
	b.open(s.link())
	b.until("the last turn is shown", `[...document.querySelectorAll(".turn .number")].at(-1)?.textContent === "100" && document.querySelector(".turn .out")`)
	eval[bool](b, `(location.reload(), true)`)
	b.until("the last turn is shown again", `[...document.querySelectorAll(".turn .number")].at(-1)?.textContent === "100" && [...document.querySelectorAll(".turn .out")].length > 0`)
	b.until("its time is known", `performance.getEntriesByType("resource").some((r) => r.name.includes("/api/read") && r.responseEnd > 0)`)
	t.Logf("first contents %.0f ms after navigation", eval[float64](b, `performance.getEntriesByType("resource").filter((r) => r.name.includes("/api/read"))[0].responseEnd`))
	const frames = `(async (scroll) => {
		const times = [];
		let last = performance.now();
		for (let i = 0; i < 120; i++) {
			scroll.scrollTop = (i * 7919) % scroll.scrollHeight;
			await new Promise(requestAnimationFrame);
			const now = performance.now();
			times.push(now - last);
			last = now;
		}
		return times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
	})`
	jumping := eval[float64](b, frames+`(document.querySelector(".scroll"))`)
	b.until("the place that was jumped to has its contents", `[...document.querySelectorAll(".turn")].every((turn) => turn.querySelector(".out"))`)
	if n := eval[float64](b, `document.querySelectorAll("*").length`); n > 3000 {
		t.Errorf("%v elements are in the document", n)
	}
	empty := eval[float64](b, `((page, box, tall) => {
		box.style.cssText = "position: fixed; inset: 0; overflow: auto; background: white";
		tall.style.height = page.scrollHeight + "px";
		box.append(tall);
		document.body.append(box);
		return `+frames+`(box);
	})(document.querySelector(".scroll"), document.createElement("div"), document.createElement("div"))`)
	t.Logf("p95 of 120 frames while jumping: %.1f ms, %.1f ms in an empty element of the same height", jumping, empty)
}

func TestPage_APersonDecidesAboutAPermission(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	work, one, two := confined.TempDir(t), confined.TempDir(t), confined.TempDir(t)
	if _, err := s.daemon().CreateSession(t.Context(), client.CreateParams{Name: "held", Dir: work, Sandbox: "workspace", AskUser: true}); err != nil {
		t.Skip("there is no sandbox here: ", err)
	}
	write := func(dir string) string { return "open('" + filepath.Join(dir, "file") + "', 'w').write('x')" }
	reply := s.exec("held", write(one))
	if reply.InputRequest == nil || reply.InputRequest.Permission == nil {
		t.Fatalf("nothing is asked for: %s", reply.Text())
	}
	s.view("held")
	b.open(s.link())
	b.until("it asks", `document.querySelector(".permit")?.innerText.includes("file")`)
	b.shot("permission")
	b.press("y\r ") // no key decides
	b.until("it still asks", `document.querySelector(".permit")`)
	b.click(".permit button", "Refuse")
	b.sees("OSError")
	if eval[bool](b, `document.body.innerText.includes("[object")`) {
		t.Error("something is not shown as text")
	}
	s.over("held")             // the text of an error is shown before its turn is over
	s.exec("held", write(one)) // a no is remembered
	reply = s.exec("held", write(two))
	if reply.InputRequest == nil {
		t.Fatalf("nothing is asked for: %s", reply.Text())
	}
	b.until("it asks again", `document.querySelector(".permit")?.innerText.includes("file")`)
	b.click(".permit button", "Allow in this session")
	b.sees("ada allowed")
	b.until("it is idle", `document.querySelector(".dot.idle")`)
	if _, err := os.Stat(filepath.Join(two, "file")); err != nil {
		t.Error(err)
	}
}

func TestPage_GoesOnAfterADaemonWasStartedAnew(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	s.open("main")
	s.exec("main", "print('before')")
	s.view("main")
	b.open(s.link())
	b.sees("before")
	other := b.another()
	other.open(s.origin + "/")
	other.until("the other tab has the list", `document.querySelectorAll(".sessions li").length === 1`)
	s.stop()
	b.until("the page says that there is no daemon", `!document.querySelector(".banner").hidden`)
	s.stop = s.serve()
	s.open("main")
	s.exec("main", "print('after')")
	b.sees("after")
	b.until("the page is whole again", `document.querySelector(".banner").hidden && !document.body.innerText.includes("before")`)
	other.until("the other tab as well", `document.querySelectorAll(".sessions li").length === 1 && document.querySelector(".banner").hidden`)
	again := browser(t)
	again.open(s.link())
	again.sees("used already")
}
