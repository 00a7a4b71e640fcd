//go:build unix

package webui

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// partsCode shows a result of each kind that the page draws by itself.
const partsCode = `show(r"""# A title
Some *text* with $e^{i\pi} = -1$, code like ` + "`f(x)`" + ` and a [link](https://example.org/x).

> A quote

$$\int_0^1 x^2\,dx = \frac{1}{3}$$

- [x] done
- [ ] not done

| name | share |
|---|--:|
| one | 2 |
""", "text/markdown")
import json
names = ["Ada", "Grace", "Edsger", "Barbara", "a name of many words that does not fit into the column of a table"]
display({"application/vnd.turnstone.table+json": json.dumps({"v": 1,
    "columns": [{"name": "name", "type": "object"}, {"name": "born in the year", "type": "int64", "align": "right"}, {"name": "share", "type": "float64", "align": "right"}],
    "index": [str(i) for i in range(20)], "rows": [[names[i % 5], str(1900 + i), str(i / 7)] for i in range(20)], "total": [20, 3]}),
    "text/html": "<p>as html", "text/plain": "20 rows"}, raw=True)
show("<p>text</p><script>1</script>")`

// A pageMode is a way in which a user sees the page.
type pageMode struct {
	name          string
	dark          bool
	width, height int64
	scale         float64
}

// pageModes returns the modes in which each part is checked. At 200 % the window has half as many
// pixels of the page.
func pageModes() []pageMode {
	return []pageMode{
		{"light", false, 1100, 800, 1},
		{"dark", true, 1100, 800, 1},
		{"narrow", false, 360, 740, 1},
		{"zoomed", true, 550, 400, 2},
	}
}

// setMode shows the page in a mode.
func (b *browserTab) setMode(m pageMode) {
	b.t.Helper()
	b.setDark(m.dark)
	b.runSteps(chromedp.EmulateViewport(m.width, m.height, chromedp.EmulateScale(m.scale)))
}

// checkPart checks the page in each mode, after an expression.
func (b *browserTab) checkPart(t *testing.T, axe, part, prepare string) {
	t.Helper()
	for _, mode := range pageModes() {
		t.Run(mode.name, func(t *testing.T) {
			b := &browserTab{t, b.ctx}
			b.setMode(mode)
			evalExpression[bool](b, "(document.querySelector(\".scroll\") && "+turnWheel+", "+prepare+", true)")
			b.checkAccessibility(axe, part+"-"+mode.name)
			if over := evalExpression[float64](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("the page is %v px wider than the window", over)
			}
		})
	}
	b.setMode(pageModes()[0])
}

// openMenu opens the menu of the session.
func (b *browserTab) openMenu() {
	b.t.Helper()
	b.waitUntil("the menu is open", `document.querySelector(".top .menu .items button") && (document.querySelector(".top .menu").open = true)`)
}

// checkMenus checks in each mode that nothing covers or cuts the entries of the menus.
func checkMenus(t *testing.T, b *browserTab) {
	b = &browserTab{t, b.ctx}
	for _, mode := range pageModes() {
		b.setMode(mode)
		for _, menu := range []string{`[...document.querySelectorAll(".menu.result")].at(-1)`, `document.querySelector(".top .menu")`} {
			covered := evalExpression[string](b, `(async (menu) => {
				menu.open = false;
				if (menu.matches(".result")) { `+turnWheel+`; menu.scrollIntoView({block: "center"}); }
				await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
				menu.open = true;
				await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
				const covered = [...menu.querySelectorAll(".items > *")].filter((entry) => {
					entry.scrollIntoView({block: "nearest"});
					const r = entry.getBoundingClientRect();
					return ![r.left + 5, r.right - 5].every((x) => entry.contains(document.elementFromPoint(x, (r.top + r.bottom) / 2)));
				});
				menu.open = false;
				return covered.map((entry) => entry.innerText).join();
			})(`+menu+`)`)
			if covered != "" {
				t.Errorf("%s: entries of %s are covered or cut: %s", mode.name, menu, covered)
			}
		}
	}
	b.setMode(pageModes()[0])
}

// axe-core checks each part of the page in each mode.
func TestPage_Parts(t *testing.T) {
	t.Parallel()
	axe := readAxe(t)
	gate := filepath.Join(t.TempDir(), "gate")
	s, b := openMain(t, showCode, partsCode, "1 / 0", "apples = list(range(3)); pears = 'x' * 100")
	b.waitUntil("the results are shown", `document.querySelector(".markdown math") && document.querySelector(".datatable td")`)
	evalExpression[bool](b, stillFor)
	check := func(part, prepare string) {
		t.Helper()
		t.Run(part, func(t *testing.T) { b.checkPart(t, axe, part, prepare) })
	}
	const view = `document.querySelector("%s").scrollIntoView()`
	check("start", fmt.Sprintf(view, ".turn"))
	t.Run("keeps the word Started whole", func(t *testing.T) {
		b := &browserTab{t, b.ctx}
		b.setMode(pageModes()[2])
		b.waitUntil("the start is shown", "("+turnWheel+`, document.querySelector(".scroll").scrollTop = 0, document.querySelector(".began strong"))`)
		if lines := evalExpression[int](b, `((r) => { r.selectNodeContents(document.querySelector(".began strong")); return r.getClientRects().length; })(document.createRange())`); lines != 1 {
			t.Errorf("it has %d lines", lines)
		}
	})
	check("markdown", fmt.Sprintf(view, ".markdown"))
	check("table", fmt.Sprintf(view, ".datatable"))
	check("result-menu", `((menu) => { menu.open = false; menu.scrollIntoView({block: "center"}); menu.querySelector("summary").click(); })([...document.querySelectorAll(".menu.result")].at(-1))`)
	evalExpression[bool](b, `(document.querySelector(".menu.result[open]").open = false, true)`)
	t.Run("each entry of a menu can be clicked", func(t *testing.T) { checkMenus(t, b) })
	b.openMenu()
	check("menu", "1")
	b.clickElement(".top .menu button", "Turns…")
	b.waitUntil("the turns are listed", `document.querySelectorAll("dialog.outline li").length === 4`)
	check("outline", "1")
	b.clickElement("dialog.outline button", "Close")
	evalExpression[bool](b, `((s) => { s.value = "errors"; s.dispatchEvent(new Event("change")); return true; })(document.querySelector(".top select"))`)
	check("filter", "1")
	b.clickElement(".filtered button", "Show all")
	b.openMenu()
	b.clickElement(".top .menu button", "Variables")
	b.clickElement(".variables tbody button", "apples")
	b.waitUntil("the value is shown", `document.querySelector(".variables pre").innerText.includes("Shape: 3")`)
	check("variables", "1")
	b.clickElement(".variables button", "Close")
	b.runCode(fmt.Sprintf("import os, time\nwhile not os.path.exists(%q): time.sleep(.01)", gate))
	b.waitUntil("it runs", `document.title.startsWith("●")`)
	b.runCode("def mean(values):\n    return sum(values) / len(values)\nmean(apples)")
	b.runCode("input('name? ')")
	b.waitUntil("two wait", `document.querySelectorAll(".queue li").length === 2`)
	b.insertText("(apples,\n pears)")
	check("queue", "1")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.waitUntil("it asks", `document.querySelector("#answer")`)
	s.openSession("another-session-with-a-long-name")
	evalExpression[bool](b, `(document.querySelector(".back").click(), true)`)
	b.waitUntil("the list is shown", `document.querySelectorAll(".sessions li").length === 2 && [...document.querySelectorAll(".sessions .last")].some((e) => e.innerText)`)
	check("list", "1")
	b.clickElement(".top button", "New session")
	b.waitUntil("the dialog is open", `document.querySelector("dialog.create input").value === "session-1"`)
	check("new-session", "1")
}

// A user without a mouse reaches each control, sees where the focus is, and does not lose it when a
// control goes away.
func TestPage_KeyboardOnly(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	s, b := openMain(t, showCode, partsCode, "for i in range(300): print(i)", "apples = list(range(3)); pears = 'x' * 100")
	b.setSize(1100, 4000) // all turns are in the document
	b.waitUntil("the results are shown", `document.querySelector(".markdown math") && document.querySelector(".datatable td") && document.querySelector(".unfold")`)
	// press gives a control the focus and presses Enter there.
	press := func(t *testing.T, selector, text string) {
		t.Helper()
		b := &browserTab{t, b.ctx}
		find := fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q) && e.checkVisibility())`, selector, text)
		b.waitUntil("the page has "+text, find)
		evalExpression[bool](b, "("+find+".focus(), true)")
		b.pressKeys("\r")
	}
	focus := func(t *testing.T, what, expression string) {
		t.Helper()
		b := &browserTab{t, b.ctx}
		b.waitUntil("the focus is on "+what, "((e) => "+expression+")(document.activeElement)")
	}
	t.Run("Tab reaches each control and shows it", func(t *testing.T) {
		evalExpression[bool](b, `(document.querySelector(".back").focus(), true)`)
		const controls = `[...document.querySelectorAll("#app a[href], #app button, #app input, #app textarea, #app summary")].filter((e) => e.checkVisibility() && !e.disabled)`
		n := evalExpression[int](b, controls+".length")
		evalExpression[bool](b, `(window.seen = new Set([document.activeElement]), true)`)
		for range 3 * n {
			b.pressKeys("\t")
			if !evalExpression[bool](b, `((e) => { seen.add(e); return e === document.body || getComputedStyle(e).outlineStyle !== "none"; })(document.activeElement)`) {
				t.Errorf("the focus cannot be seen: %s", evalExpression[string](b, `document.activeElement.outerHTML.slice(0, 200)`))
			}
			if evalExpression[bool](b, controls+".every((e) => seen.has(e))") {
				break
			}
		}
		if missed := evalExpression[string](b, controls+`.filter((e) => !seen.has(e)).map((e) => e.outerHTML.slice(0, 200)).join("\n")`); missed != "" || n < 20 {
			t.Errorf("Tab did not reach, of %d controls:\n%s", n, missed)
		}
	})
	t.Run("a menu closes with Esc and leaves the focus where it was opened", func(t *testing.T) {
		for _, menu := range []string{".menu.result summary", ".top .menu summary"} {
			press(t, menu, "")
			b.pressKeys("\t")
			focus(t, "its first entry", `e.closest(".items")`)
			b.pressKeys(escape)
			focus(t, "the menu", fmt.Sprintf(`e.matches(%q) && !e.parentElement.open`, menu))
		}
		press(t, ".top .menu summary", "")
		press(t, ".top .menu button", "Turns…")
		focus(t, "the field of the dialog", `e.closest("dialog.outline input")`)
		b.pressKeys(escape)
		focus(t, "the menu", `e.matches(".top .menu summary")`)
	})
	t.Run("hiding a turn and showing more keep the focus at the turn", func(t *testing.T) {
		press(t, ".turn .fold", "Hide")
		focus(t, "the button", `e.textContent === "Show"`)
		b.pressKeys("\r")
		focus(t, "the button", `e.textContent === "Hide"`)
		press(t, ".turn .unfold", "more lines")
		focus(t, "the lines", `e.matches("pre.out") && e.textContent.includes("100")`)
		evalExpression[bool](b, `(window.confirm = () => true, true)`)
		press(t, ".turn .more", "Run the scripts of this result")
		focus(t, "the next button", `e.textContent === "Always in this session"`)
	})
	t.Run("the panel of variables takes the focus and gives it back", func(t *testing.T) {
		evalExpression[bool](b, `(document.querySelector(".scroll").focus(), true)`)
		b.pressKeys("v")
		focus(t, "the list", `e.closest(".variables")`)
		press(t, ".variables tbody button", "apples")
		b.waitUntil("the value is shown", `document.querySelector(".variables pre").innerText.includes("Shape: 3")`)
		s.execCode("main", "quinces = 5")
		b.waitUntil("the list is new", `document.querySelector(".variables tbody").innerText.includes("quinces")`)
		focus(t, "the variable", `e.textContent === "apples"`)
		b.pressKeys(escape)
		focus(t, "the session", `e.matches(".scroll") && document.querySelector(".variables").hidden`)
	})
	t.Run("removing code that waits moves the focus to the rest", func(t *testing.T) {
		b.runCode(fmt.Sprintf("import os, time\nwhile not os.path.exists(%q): time.sleep(.01)", gate))
		b.waitUntil("it runs", `document.title.startsWith("●")`)
		b.runCode("1")
		b.runCode("2")
		b.waitUntil("two wait", `document.querySelectorAll(".queue li").length === 2`)
		press(t, ".queue li button", "Remove")
		focus(t, "the other one", `e.closest(".queue li") && document.querySelectorAll(".queue li").length === 1`)
		press(t, ".queue li button", "Remove")
		focus(t, "the code", `e.matches(".write textarea")`)
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b.waitUntil("it is idle", `document.querySelector(".dot.idle")`)
	})
	t.Run("the end of a filter leaves the focus in the session", func(t *testing.T) {
		evalExpression[bool](b, `((s) => { s.value = "errors"; s.dispatchEvent(new Event("change")); return true; })(document.querySelector(".top select"))`)
		press(t, ".filtered button", "Show all")
		focus(t, "the session", `e.matches(".scroll")`)
	})
	t.Run("the list keeps the focus at a session that changes", func(t *testing.T) {
		s.openSession("other")
		press(t, ".back", "")
		b.waitUntil("the list is shown", `document.querySelectorAll(".sessions li").length === 2`)
		evalExpression[bool](b, `(document.querySelector('[aria-label="close other"]').focus(), true)`)
		s.execCode("other", "print('changed')")
		b.waitUntil("its last line is shown", `document.querySelector(".sessions").innerText.includes("changed")`)
		focus(t, "its button", `e.ariaLabel === "close other"`)
		b.pressKeys("\r")
		b.waitUntil("it is closed", `document.querySelectorAll(".sessions li").length === 1`)
		focus(t, "a control of the list", `e.closest(".list") && e.matches("a, button")`)
		press(t, ".top .new", "New session")
		focus(t, "the name", `e.closest("dialog.create input")`)
		b.pressKeys(escape)
		focus(t, "the button", `e.matches(".new")`)
	})
}

// Charts are pictures, frames of their library, or say why they are not drawn.
func TestCharts_Parts(t *testing.T) {
	t.Parallel()
	axe := readAxe(t)
	_, b := openCharts(t, `go.Figure(go.Scatter(y=[1, 3, 2]), layout={"height": 300, "title": {"text": "Sales"}}).show()
p = figure(height=200); _ = p.line([1, 2, 3], [1, 3, 2]); show(p)
go.Figure(go.Splom(dimensions=[dict(values=[1, 2])])).show()`)
	b.waitUntil("the charts are drawn", `document.querySelector(".plot .picture img")?.naturalHeight > 100 && document.querySelector(".plot iframe.live[data-drawn]") && document.body.innerText.includes("Not drawn here")`)
	const view = `document.querySelector(".plot").scrollIntoView()`
	t.Run("picture", func(t *testing.T) { b.checkPart(t, axe, "chart-picture", view) })
	t.Run("Enter makes a chart live, and Tab leaves it", func(t *testing.T) {
		b := &browserTab{t, b.ctx}
		evalExpression[bool](b, `(document.querySelector(".plot .picture").focus(), true)`)
		b.pressKeys("\r")
		b.waitUntil("it has the focus", `document.activeElement.matches(".plot iframe.live[data-drawn]")`)
		for range 60 {
			b.pressKeys("\t")
			if evalExpression[bool](b, `!document.activeElement.matches("iframe")`) {
				return
			}
		}
		t.Error("the focus does not leave the chart")
	})
	t.Run("a live chart is not cut at its end", func(t *testing.T) {
		if height := evalExpression[float64](&browserTab{t, b.ctx}, `[...document.querySelectorAll(".plot iframe.live")].at(-1).clientHeight`); height < 200 {
			t.Errorf("%v of its 200 px are shown", height)
		}
	})
	t.Run("live", func(t *testing.T) { b.checkPart(t, axe, "chart-live", view) })
}
