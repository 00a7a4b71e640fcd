//go:build unix

package webui

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/turnstone-repl/turnstone/session"
)

// showCode defines show(), which makes the display of a type from a text.
const showCode = `class Shown:
    def __init__(self, kind, text): self.kind, self.text = kind, text
    def __repr__(self): return "shown"
    def _repr_mimebundle_(self, include=None, exclude=None): return {self.kind: self.text, "text/plain": "shown"}
def show(text, kind="text/html"): display(Shown(kind, text))
def only(text):
    class Only(Shown):
        def _repr_mimebundle_(self, include=None, exclude=None): return {self.kind: self.text}
    display(Only("text/html", text))`

// tallCode shows contents whose height is known only late: documents in frames and long output.
const tallCode = `for i in range(3):
    show("<table>" + "".join(f"<tr><td>{k}<td>{k * i}" for k in range(20)) + "</table>")
    show("<p style='height:400px'>tall</p>")
    print("line\n" * 10)`

// turnWheel is an expression that turns the wheel up. After it, a scroll is the user's, and the page no
// longer follows the end.
const turnWheel = `document.querySelector(".scroll").dispatchEvent(new WheelEvent("wheel", {deltaY: -1}))`

// distance is how far the end of the session is below the visible part, in pixels.
const distance = `((s) => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector(".scroll"))`

// stillFor waits until the height of the session has not changed for some frames.
const stillFor = `(async (scroll) => {
	for (let same = 0, height = 0; same < 30; same++) {
		if (scroll.scrollHeight !== height) [height, same] = [scroll.scrollHeight, 0];
		await new Promise(requestAnimationFrame);
	}
	return true;
})(document.querySelector(".scroll"))`

func TestPage_Following(t *testing.T) {
	t.Parallel()

	t.Run("opens a session at its end, however late its heights are known", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		s.openSession("main")
		s.execCode("main", showCode)
		for range 3 {
			s.execCode("main", tallCode)
		}
		s.startPage("main")
		b := openTab(t)
		b.openAddress(s.lastLink())
		for range 5 {
			b.waitUntil("the last turn is shown", `!window.earlier && [...document.querySelectorAll(".turn .number")].at(-1)?.textContent === "4" && document.querySelector(".turn iframe")`)
			evalExpression[bool](b, stillFor)
			if px := evalExpression[float64](b, distance); px > 2 {
				t.Errorf("the end is %v px below", px)
			}
			if evalExpression[bool](b, `!document.querySelector(".jump").hidden`) {
				t.Error("the page does not follow the end")
			}
			evalExpression[bool](b, `(window.earlier = true, location.reload(), true)`)
		}
	})

	t.Run("follows turns that come, until the user scrolls up", func(t *testing.T) {
		t.Parallel()
		s, b := openMain(t, showCode)
		b.waitText("Started")
		for range 3 {
			s.execCode("main", tallCode)
			evalExpression[bool](b, stillFor)
			if px := evalExpression[float64](b, distance); px > 2 {
				t.Errorf("the end is %v px below", px)
			}
		}
		b.scrollWheel(-600)
		b.waitUntil("the page offers the way to the end", `!document.querySelector(".jump").hidden`)
		evalExpression[bool](b, stillFor)
		const read = `window.read.getBoundingClientRect().top`
		before := evalExpression[float64](b, `(window.read = document.elementFromPoint(500, 300), window.tall = document.querySelector(".scroll").scrollHeight, `+read+`)`)
		s.execCode("main", "print('more\\n' * 50)")
		b.waitUntil("the new turn is known", `document.querySelector(".scroll").scrollHeight > window.tall + 500`)
		evalExpression[bool](b, stillFor)
		if after := evalExpression[float64](b, read); math.Abs(after-before) > 2 {
			t.Errorf("the place of the reader went from %v to %v", before, after)
		}
		b.clickElement("button", "To the end")
		evalExpression[bool](b, stillFor)
		if px := evalExpression[float64](b, distance); px > 2 {
			t.Errorf("after the button, the end is %v px below", px)
		}
	})

	// On a busy machine, the page's own scroll may be reported late, when more has been added.
	t.Run("takes no scroll of its own for one of the user", func(t *testing.T) {
		t.Parallel()
		_, b := openMain(t, "print('line\\n' * 150)", "print('last')")
		b.waitText("\nlast")
		evalExpression[bool](b, stillFor)
		evalExpression[bool](b, `new Promise((resolve) => {
			const turn = [...document.querySelectorAll(".turn")].at(-1);
			const grow = () => { const more = document.createElement("div"); more.style.height = "300px"; turn.append(more); };
			let started = false;
			const sizes = new ResizeObserver(() => {
				if (!started) return;
				sizes.disconnect();
				for (const end = performance.now() + 600; performance.now() < end;);
				grow();
				resolve(true);
			});
			sizes.observe(turn);
			requestAnimationFrame(() => requestAnimationFrame(() => { started = true; grow(); }));
		})`)
		evalExpression[bool](b, stillFor)
		if px := evalExpression[float64](b, distance); px > 2 {
			t.Errorf("the end is %v px below", px)
		}
	})

	t.Run("leaves the end for a scroll of the browser's own search", func(t *testing.T) {
		t.Parallel()
		_, b := openMain(t, "print('line\\n' * 150)\nprint('x')")
		b.waitUntil("the turn is shown", `document.querySelector(".turn .out")`)
		evalExpression[bool](b, `new Promise((r) => setTimeout(() => r(true), 1000))`)
		evalExpression[bool](b, `(document.querySelector(".scroll").scrollTop = 0, true)`)
		b.waitUntil("the page no longer follows", `!document.querySelector(".jump").hidden && document.querySelector(".scroll").scrollTop === 0`)
	})
}

// scrollWheel turns the wheel over the session.
func (b *browserTab) scrollWheel(by float64) {
	b.t.Helper()
	evalExpression[bool](b, fmt.Sprintf(`((scroll) => {
		scroll.dispatchEvent(new WheelEvent("wheel", {deltaY: %v}));
		scroll.scrollBy(0, %v);
		return true;
	})(document.querySelector(".scroll"))`, by, by))
}

// A terminal has 120 columns until a client says otherwise, and code draws its tables and bars for that.
func TestPage_Columns(t *testing.T) {
	t.Parallel()
	_, b := openMain(t, "print('x' * 120)")
	b.setSize(1200, 800)
	b.waitUntil("the line is whole", `document.querySelector(".turn .out")?.getBoundingClientRect().height === 20`)
}

// Bars of tqdm and rich go up to the lines that they change.
func TestPage_CursorUp(t *testing.T) {
	t.Parallel()
	_, b := openMain(t, `import sys
print("above")
for i in range(3):
    sys.stdout.write(f"\router {i}\n\rinner {i}\x1b[A"); sys.stdout.flush()
sys.stdout.write("\x1b[9A\rABOVE\x1b[2B\r\n\x1b[32mgreen\x1b[0m")
print("\nlast\x1b[99A\x1b[99B")`)
	const want = "ABOVE\nouter 2\ninner 2\ngreen\nlast\n"
	for _, when := range []string{"while it is read", "after a reload"} {
		b.waitUntil("the lines are changed in place "+when, fmt.Sprintf(`document.querySelector(".turn .out")?.textContent === %q`, want))
		evalExpression[bool](b, `(location.reload(), true)`)
	}
}

// The code ends the line of a secret, whose characters no terminal shows.
func TestPage_SecretLine(t *testing.T) {
	t.Parallel()
	_, b := openMain(t)
	b.waitText("Started")
	b.runCode("import getpass; p = getpass.getpass('Key: '); print('read', len(p))")
	b.waitUntil("the field is there", `document.querySelector("#answer")`)
	if text := evalExpression[string](b, `document.querySelector(".facts").textContent`); strings.Contains(text, "write lock") {
		t.Errorf("the page tells its own user of the write lock: %s", text)
	}
	b.typeInto("#answer", "correct horse")
	b.pressKeys("\r")
	b.waitUntil("no empty line follows", `document.querySelector(".turn .out")?.textContent === "Key: ••••••\nread 13\n"`)
}

// The menu of a result is in the margin, and takes no line of its own.
func TestPage_ResultMenu(t *testing.T) {
	t.Parallel()
	s, b := openMain(t, showCode)
	s.execCode("main", "show('<i>short</i>')")
	b.waitUntil("the result is measured", `document.querySelector(".display iframe")?.dataset.height`)
	const rect = `document.querySelector(%q).getBoundingClientRect()`
	display, frame, menu := fmt.Sprintf(rect, ".display"), fmt.Sprintf(rect, ".display iframe"), fmt.Sprintf(rect, ".display .menu summary")
	if over := evalExpression[float64](b, display+".height - "+frame+".height"); over > 6 {
		t.Errorf("the result has %v px below its frame", over)
	}
	if !evalExpression[bool](b, menu+".left >= "+frame+".right && "+menu+".right <= "+fmt.Sprintf(rect, ".turn")+".right && "+menu+".top < "+frame+".bottom") {
		t.Error("the menu is not in the margin of the turn")
	}
}

func TestPage_Frames(t *testing.T) {
	t.Parallel()
	s, b := openMain(t, showCode)
	b.waitText("Started")
	for i, c := range []struct {
		name, html string
		min, max   float64 // height in pixels
	}{
		{"a short text", `<i>short</i>`, 24, 60},
		{"a table", `<table>` + strings.Repeat("<tr><td>1<td>2", 6) + `</table>`, 120, 220},
		{"a fixed height", `<p style="height:400px">x</p>`, 400, 460},
		{"a height that follows the frame", `<p style="height:110vh">x</p>`, 24, 900},
		{"a name that hides a property", `<img name=documentElement><form name=scrollHeight></form><p style="height:300px">x</p>`, 300, 360},
		{"a placed element", `<p style="position:absolute;height:400px">x</p>`, 400, 460},
		{"a huge height", `<p style="height:100000000px">x</p>`, 890, 900},
	} {
		s.execCode("main", fmt.Sprintf("show(%q)", c.html))
		last := fmt.Sprintf(`[...document.querySelectorAll(".turn")].find((t) => t.querySelector(".number").textContent === "%d")?.querySelector("iframe")`, i+2)
		b.waitUntil(c.name+" is measured", last+`?.dataset.height`)
		if got := evalExpression[float64](b, last+`.getBoundingClientRect().height`); got < c.min || got > c.max {
			t.Errorf("%s: the frame is %v px tall", c.name, got)
		}
		if evalExpression[string](b, last+`.getAttribute("sandbox")`) != "allow-scripts" {
			t.Errorf("%s: the frame has other rights", c.name)
		}
	}
	b.takeScreenshot("frames")
}

func TestPage_Scripts(t *testing.T) {
	t.Parallel()
	s, b := openMain(t, showCode, `only("<p id=p>dead</p><script>document.body.style.height = '10px'</script>")`, `show("<script>1</script>")`)
	b.waitUntil("both have a button", `[...document.querySelectorAll("button")].filter((e) => e.textContent === "Run the scripts of this result").length === 2`)
	if n := evalExpression[float64](b, `document.querySelectorAll("iframe").length`); n != 0 {
		t.Errorf("%v frames run before the user allows it", n)
	}
	evalExpression[bool](b, `(window.asked = 0, window.confirm = () => { window.asked++; return true; }, true)`)
	b.clickElement("button", "Run the scripts of this result")
	b.waitUntil("one of them runs", `document.querySelectorAll('iframe[src$="?scripts=run"]').length === 1`)
	b.clickElement("button", "Always in this session")
	b.waitUntil("both run", `document.querySelectorAll('iframe[src$="?scripts=run"]').length === 2`)
	s.execCode("main", `only("<script>2</script>")`)
	b.waitUntil("a new one runs", `document.querySelectorAll('iframe[src$="?scripts=run"]').length === 3`)
	if n := evalExpression[float64](b, `window.asked`); n != 1 {
		t.Errorf("the user was asked %v times", n)
	}
	evalExpression[bool](b, `(location.reload(), true)`)
	b.waitUntil("they ask again in another visit", `[...document.querySelectorAll("button")].filter((e) => e.textContent === "Run the scripts of this result").length === 3`)
}

// An update of a result belongs to the turn that showed it.
func TestPage_Updates(t *testing.T) {
	t.Parallel()
	s, b := openMain(t, "bar = display({'text/markdown': 'step **0**'}, raw=True, display_id='bar')")
	b.waitText("step 0")
	s.execCode("main", "bar.update({'text/markdown': 'step **1**'}, raw=True); print('updated once')")
	s.execCode("main", "for i in range(2, 10): bar.update({'text/markdown': f'step **{i}**'}, raw=True)\nprint('updated again')")
	where := `[...document.querySelectorAll(".turn")].filter((t) => t.querySelector(".display")).map((t) => t.querySelector(".number").textContent + " " + t.querySelector(".rich").innerText.trim()).join()`
	for _, when := range []string{"while it runs", "after a reload"} {
		b.waitText("updated again")
		b.waitUntil("the first turn shows the newest state "+when, where+` === "1 step 9"`)
		evalExpression[bool](b, `(location.reload(), true)`)
		b.waitUntil("it loads again", `!document.querySelector(".display")`)
	}
	b.waitUntil("the first turn shows the newest state", where+` === "1 step 9"`)
	s.execCode("main", "display({'text/markdown': 'another'}, raw=True, display_id='bar'); bar.update({'text/markdown': 'step **10**'}, raw=True)")
	b.waitUntil("the last turn that showed it has the update", where+` === "1 step 9,4 step 10" || `+where+` === "1 step 0,4 step 10"`)
}

func TestPage_LongOutput(t *testing.T) {
	t.Parallel()
	_, b := openMain(t, "for i in range(390): print('short', i)", "for i in range(30_000): print('long', i, 'needle' if i == 12_345 else '')", "print('end')")
	b.waitUntil("the last turn is shown", `[...document.querySelectorAll(".turn .number")].at(-1)?.textContent === "3"`)
	evalExpression[bool](b, `(document.querySelector(".scroll").focus(), true)`)
	b.pressKeys("g")
	b.clickElement("button", "Show 310 more lines")
	b.waitText("short 200")
	if text := evalExpression[string](b, `[...document.querySelectorAll(".turn")].find((t) => t.innerText.includes("short 0")).querySelector(".flow").textContent`); strings.Count(text, "short ") != 390 || !strings.Contains(text, "short 19\nshort 20\n") {
		t.Errorf("the lines are not whole: %d of 390", strings.Count(text, "short "))
	}
	b.clickElement("button", "Search")
	b.typeInto(".find input", "needle")
	b.waitUntil("both matches are found", `document.querySelectorAll(".hits li").length === 2`)
	evalExpression[bool](b, `([...document.querySelectorAll(".hits button")].find((e) => e.textContent.includes("12345")).click(), true)`)
	b.waitUntil("the line is in view", `[...document.querySelectorAll("pre.out")].some((out) => out.textContent.includes("long 12345 needle") && out.checkVisibility())`)
	b.waitUntil("the match is marked in the visible part", `((r) => r?.startContainer.data.slice(0, r.startOffset).endsWith("long 12345 ") && r.getBoundingClientRect().top > 200 && r.getBoundingClientRect().bottom < 600)([...(CSS.highlights.get("found") ?? [])].at(-1))`)
	b.takeScreenshot("search-in-long-output")
	b.openMenu()
	evalExpression[bool](b, `((filter) => { filter.value = "errors"; filter.dispatchEvent(new Event("change")); return true; })(document.querySelector(".top .menu select"))`)
	b.waitText("Only errors: 0 turns.")
	evalExpression[bool](b, `(document.querySelector(".hits button").click(), true)`)
	b.waitUntil("a match in a turn that is filtered out is shown", `document.querySelector(".filtered").hidden && [...document.querySelectorAll("pre.out")].some((out) => out.textContent.includes("needle"))`)
}

func TestPage_Markdown(t *testing.T) {
	t.Parallel()
	s := newTestDaemon(t)
	s.openSession("main")
	s.execCode("main", showCode)
	s.execCode("main", `show(r"""# A title
Some *text* with $e^{i\pi} = -1$, $5 and $6, a [link](https://example.org/x) and a [bad one](javascript:alert(1)).

$$\int_0^1 x^2\,dx = \frac{1}{3}$$

- one
- two <img src=x onerror="window.ran = 1">

| a | b |
|---|--:|
| 1 | 2 |

![a picture](https://example.org/y.png)
<script>window.ran = 2</script>
""", "text/markdown")`)
	s.execCode("main", `show(r"$\displaystyle \frac{a}{b}$", "text/latex")`)
	s.execCode("main", `show(r"\def\a{\a\a}\a", "text/latex")`)
	s.execCode("main", `show(r"$\href{javascript:window.ran=3}{x} \includegraphics{https://example.org/z.png}$", "text/latex")`)
	s.startPage("main")
	b := openTab(t)
	b.openAddress(s.lastLink())
	b.waitUntil("the text is set", `document.querySelector(".markdown h3")?.textContent === "A title"`)
	b.waitUntil("the formulas are set", `document.querySelectorAll(".markdown math").length === 2 && document.querySelectorAll(".rich math mfrac").length === 2`)
	for what, expression := range map[string]string{
		"amounts of money stay text":      `document.querySelector(".markdown p").textContent.includes("$5 and $6")`,
		"a link leads where it says":      `[...document.querySelectorAll(".markdown a")].map((a) => a.href + a.rel).join() === "https://example.org/xnoopener noreferrer"`,
		"HTML stays text":                 `document.querySelector(".markdown li:last-child").textContent.includes("<img src=x")`,
		"no script runs, nothing loads":   `!window.ran && !document.querySelector(".markdown img, .markdown script, .rich [href^=javascript]") && !performance.getEntriesByType("resource").some((r) => r.name.includes("example.org"))`,
		"a picture is its words":          `document.querySelector(".markdown em:last-of-type") && document.querySelector(".markdown").textContent.includes("[picture: a picture]")`,
		"a table has its columns":         `document.querySelectorAll(".markdown td").length === 2`,
		"an endless formula stays source": `document.body.innerText.includes("\\def\\a{\\a\\a}\\a")`,
	} {
		if !evalExpression[bool](b, "Boolean("+expression+")") {
			t.Errorf("%s: %s", what, evalExpression[string](b, `document.body.innerText.slice(0, 2000)`))
		}
	}
	b.takeScreenshot("markdown")
	b.setDark(true)
	b.takeScreenshot("markdown-dark")
}

func TestPage_Work(t *testing.T) {
	t.Parallel()
	_, b := openMain(t, "x = 40\nx + 2")
	b.waitText("42")
	b.typeInto("textarea", "draft")
	b.clickElement("button", "Edit")
	const field = `document.querySelector(".write textarea")`
	b.waitUntil("the code is in the field", field+`.value === "x = 40\nx + 2" && document.activeElement === `+field)
	b.waitText("from Turn 1")
	b.pressKeys("\x1b")
	b.waitUntil("the draft is back", field+`.value === "draft" && document.querySelector(".from").hidden`)
	b.clickElement("button", "Edit")
	b.waitUntil("the code is in the field again", field+`.value === "x = 40\nx + 2"`)
	evalExpression[bool](b, `(`+field+`.setSelectionRange(2, 9), true)`)
	b.pressKeys("\t")
	b.waitUntil("both lines are indented, and selected", field+`.value === "    x = 40\n    x + 2" && `+field+`.selectionEnd === `+field+`.value.length - 3`)
	evalExpression[bool](b, `(`+field+`.select(), true)`)
	b.insertText("for i in range(3):\n    print(i)")
	b.waitUntil("the code has colours", `document.querySelector(".colours .painted .k-keyword")?.textContent === "for" && getComputedStyle(`+field+`).color === "rgba(0, 0, 0, 0)"`)
	b.takeScreenshot("colours")
	b.insertText(" \u202e")
	b.waitUntil("code with invisible characters has none", `!document.querySelector(".colours") && getComputedStyle(`+field+`).color !== "rgba(0, 0, 0, 0)"`)
	evalExpression[bool](b, `(`+field+`.select(), true)`)
	b.insertText("input('who? ')")
	b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.waitUntil("the title says that it waits", `document.title === "(waits) main – Turnstone"`)
	b.waitUntil("it is a new turn", `[...document.querySelectorAll(".turn .number")].at(-1).textContent === "2"`)
	b.waitUntil("the question has a field", `document.querySelector("#answer")`)
	b.typeInto("#answer", "me")
	b.pressKeys("\r")
	b.waitUntil("the title is plain again", `document.title === "main – Turnstone"`)
	evalExpression[bool](b, `(location.assign("/s/nobody"), true)`)
	b.waitText("There is no session of this name.")
}

func TestPage_Queue(t *testing.T) {
	t.Parallel()
	const turns = `[...document.querySelectorAll(".turn .number")].map((n) => n.textContent).join()`
	// start runs code in the page that ends when the test calls open, and queues two inputs.
	start := func(t *testing.T, first string) (s *testDaemon, b *browserTab, open func()) {
		gate := filepath.Join(t.TempDir(), "gate")
		s = newTestDaemon(t)
		s.openSession("main")
		s.startPage("main")
		b = openTab(t)
		b.openAddress(s.lastLink())
		b.waitText("Started")
		b.runCode(fmt.Sprintf("import os, time\nwhile not os.path.exists(%q): time.sleep(.01)\n%s", gate, first))
		b.waitUntil("it runs", `document.title.startsWith("●") && document.querySelector(".write .side button:last-of-type").textContent === "Queue"`)
		b.runCode("print('the ' + 'second')")
		b.runCode("print('the ' + 'third')")
		b.waitUntil("two wait", `document.querySelectorAll(".queue li").length === 2`)
		return s, b, func() {
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}

	t.Run("runs the code in order when the session is idle", func(t *testing.T) {
		t.Parallel()
		_, b, open := start(t, "1")
		b.takeScreenshot("queue")
		open()
		b.waitText("the third")
		b.waitUntil("nothing waits", `document.querySelector(".queue").hidden && `+turns+` === "·,1,2,3"`)
		if !evalExpression[bool](b, `document.querySelector(".turns").innerText.indexOf("the second") < document.querySelector(".turns").innerText.indexOf("the third")`) {
			t.Error("the order is another one")
		}
	})

	t.Run("stops after an error until the user goes on", func(t *testing.T) {
		t.Parallel()
		_, b, open := start(t, "1 / 0")
		open()
		b.waitText("Turn 1 failed.")
		b.clickElement(".queue button", "Edit")
		b.waitUntil("the code is in the field", `document.querySelector(".write textarea").value === "print('the ' + 'second')" && document.querySelectorAll(".queue li").length === 1`)
		b.takeScreenshot("queue-stopped")
		b.clickElement(".queue button", "Run anyway")
		b.waitText("the third")
		b.waitUntil("nothing waits", `document.querySelector(".queue").hidden`)
	})

	t.Run("does not run after a turn that somebody else ran since", func(t *testing.T) {
		t.Parallel()
		s, b, open := start(t, "input('name? ')")
		open()
		b.waitUntil("the question has a field", `document.querySelector("#answer")`)
		done := make(chan error, 1)
		go func() {
			_, err := session.Run(context.Background(), s.dialDaemon().Session("main"), "print('of another')", &session.RunOptions{Queue: true})
			done <- err
		}()
		b.typeInto("#answer", "me")
		b.pressKeys("\r")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b.waitText("ran turn 2 since.")
		b.clickElement(".queue button", "Run anyway")
		b.waitText("the third")
	})
}

func TestPage_Variables(t *testing.T) {
	t.Parallel()
	_, b := openMain(t, "apples = list(range(3)); hostile = type('<b>\\u202e', (), {})()")
	b.waitText("apples")
	evalExpression[bool](b, `(document.querySelector(".scroll").focus(), true)`)
	b.pressKeys("v")
	const row = `[...document.querySelectorAll(".variables tbody tr")].map((r) => r.innerText).join("\n")`
	b.waitUntil("they are listed", row+`.includes("apples") && `+row+`.includes("list")`)
	if n := evalExpression[float64](b, `document.querySelectorAll(".variables b").length`); n != 0 {
		t.Error("the name of a type is HTML")
	}
	b.clickElement(".variables tbody button", "apples")
	b.waitUntil("the value is shown", `document.querySelector(".variables pre").innerText.includes("Shape: 3")`)
	b.takeScreenshot("variables")
	b.runCode("pears = 4; input('name? ')")
	b.waitUntil("they are old", `document.querySelector(".variables").classList.contains("old") && document.querySelector(".variables").innerText.includes("As of turn 1.")`)
	b.typeInto("#answer", "me")
	b.pressKeys("\r")
	b.waitUntil("they are listed again", row+`.includes("pears")`)
	turns := `[...document.querySelectorAll(".turn .number")].map((n) => n.textContent).join()`
	if got := evalExpression[string](b, turns); got != "·,1,2" {
		t.Errorf("the questions of the panel are turns: %s", got)
	}
	b.setSize(360, 740)
	b.takeScreenshot("variables-360")
	b.clickElement(".variables button", "Close")
	b.waitUntil("it is closed", `!document.querySelector(".variables").checkVisibility()`)
}

func TestPage_Overview(t *testing.T) {
	t.Parallel()
	_, b := openMain(t, showCode, "show('<b>one</b>')", "1 / 0", "print('line ' * 3)")
	b.waitText("ZeroDivisionError")
	b.runCode("print('of ' + 'the page')")
	b.waitText("of the page")
	filter := func(name, want string) {
		t.Helper()
		evalExpression[bool](b, fmt.Sprintf(`((s) => { s.value = %q; s.dispatchEvent(new Event("change")); return true; })(document.querySelector(".top select"))`, name))
		b.waitUntil("the filter "+name, fmt.Sprintf(`[...document.querySelectorAll(".turn .number")].map((n) => n.textContent).join() === %q`, want))
	}
	filter("errors", "3")
	filter("pictures", "2")
	filter("mine", "5")
	filter("others", "1,2,3,4")
	b.takeScreenshot("filter")
	b.clickElement(".filtered button", "Show all")
	b.waitUntil("all turns are shown again", `[...document.querySelectorAll(".turn .number")].map((n) => n.textContent).join().endsWith("3,4,5")`)
	evalExpression[bool](b, `(document.querySelector(".top .menu").open = true)`)
	b.clickElement(".top .menu button", "Turns…")
	b.waitUntil("all turns are listed", `document.querySelectorAll("dialog.outline li").length === 5`)
	b.typeInto("dialog.outline input", "1 / 0")
	b.waitUntil("one is found", `document.querySelectorAll("dialog.outline li").length === 1`)
	b.takeScreenshot("outline")
	b.clickElement("dialog.outline li button", "1 / 0")
	b.waitUntil("its turn has the focus", `document.activeElement.getAttribute("aria-label")?.startsWith("Turn 3")`)
}

func TestPage_Print(t *testing.T) {
	t.Parallel()
	s := newTestDaemon(t)
	s.openSession("main")
	s.execCode("main", showCode)
	for i := range 40 {
		s.execCode("main", fmt.Sprintf("show('<p style=\"height:500px\">tall</p>')\nprint('number', %d * 2)", i))
	}
	s.startPage("main")
	b := openTab(t)
	b.openAddress(s.lastLink())
	b.waitText("number 78")
	evalExpression[bool](b, `(window.print = () => { window.printed = document.body.innerText; window.frames_ = document.querySelectorAll("iframe").length; }, document.querySelector(".top .menu").open = true)`)
	b.clickElement(".top .menu button", "Print…")
	b.waitUntil("it is printed", `window.printed`)
	for _, want := range []string{"number 0\n", "number 40\n", "number 78"} {
		if !evalExpression[bool](b, fmt.Sprintf(`window.printed.includes(%q)`, want)) {
			t.Errorf("%q is not printed", want)
		}
	}
	if n := evalExpression[float64](b, `window.frames_`); n != 40 {
		t.Errorf("%v of 40 results are printed", n)
	}
}

// Paper cannot be scrolled, and its ink is dark.
func TestPage_Paper(t *testing.T) {
	t.Parallel()
	_, b := openMain(t, "x = 1 # "+strings.Repeat("a long line of code ", 20))
	b.waitText("a long line")
	b.setMedia("print", "dark")
	b.waitUntil("code is wrapped", `((code) => code.scrollWidth <= code.clientWidth && code.clientHeight > 40)(document.querySelector(".turn .code"))`)
	b.waitUntil("text is dark", `getComputedStyle(document.body).color === "rgb(34, 37, 42)"`)
}

func TestPage_List(t *testing.T) {
	t.Parallel()
	s := newTestDaemon(t)
	s.openSession("main")
	s.execCode("main", "print('first'); print('\x1b[31mthe last line\x1b[0m <b>\u202e')")
	s.startPage()
	b := openTab(t)
	b.openAddress(s.lastLink())
	b.waitUntil("the last line is shown", `document.querySelector(".sessions .last")?.innerText === "claude the last line <b>U+202E"`)
	s.execCode("main", "x = 1")
	b.waitUntil("code without output is shown", `document.querySelector(".sessions .last").innerText === "claude x = 1"`)
	dir := t.TempDir()
	b.clickElement(".top button", "New session")
	b.waitUntil("the dialog is open", `document.querySelector("dialog.create input").value === "session-1"`)
	b.takeScreenshot("new-session")
	evalExpression[bool](b, `(document.querySelector("dialog.create input").value = "", true)`)
	b.typeInto("dialog.create input", "main")
	b.clickElement("dialog.create button", "Create")
	b.waitUntil("a second one of a name is refused", `document.querySelector("dialog.create .bad").checkVisibility()`)
	evalExpression[bool](b, `(document.querySelector("dialog.create input").value = "", true)`)
	b.typeInto("dialog.create input", "work")
	b.typeInto("dialog.create label:last-of-type input", dir)
	b.clickElement("dialog.create button", "Create")
	b.waitUntil("the session is open", `location.pathname === "/s/work"`)
	b.waitText("Started")
	b.runCode("import os; print('in', os.getcwd())")
	b.waitText("in " + dir)
	evalExpression[bool](b, `(document.querySelector(".back").click(), true)`)
	b.waitUntil("both are listed", `document.querySelectorAll(".sessions li").length === 2`)
	b.waitUntil("both have their last line", `[...document.querySelectorAll(".sessions .last")].some((e) => e.innerText.startsWith("ada in "))`)
	b.takeScreenshot("list")
	evalExpression[bool](b, `(window.confirm = (text) => { window.asked = text; return true; }, true)`)
	evalExpression[bool](b, `(document.querySelector('[aria-label="close work"]').click(), true)`)
	b.waitUntil("it is closed", `document.querySelectorAll(".sessions li").length === 1 && window.asked.startsWith("Close work?")`)
	b.setSize(360, 740)
	b.takeScreenshot("list-360")
}
