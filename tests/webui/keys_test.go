//go:build unix

package webui

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// Keys, by chromedp's names.
const (
	arrowUp   = "\u0304"
	arrowDown = "\u0301"
	escape    = "\x1b"
)

// tapKey presses a key with its text in one event, as a keyboard does. A page that handles the key
// then keeps the text out of a field.
func (b *browserTab) tapKey(key string) {
	b.t.Helper()
	texts := map[string]string{"Enter": "\r"}
	b.runSteps(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			p := input.DispatchKeyEventParams{Type: kind, Key: key}
			if kind == input.DispatchKeyEventTypeKeyDown {
				p.Text = cmp.Or(texts[key], key)
			}
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, p); err != nil {
				return v, err
			}
		}
		return v, nil
	})
}

func TestPage_Keys(t *testing.T) {
	t.Parallel()
	s := newTestDaemon(t)
	b := openTab(t)
	s.openSession("main")
	for i := range 25 {
		s.execCode("main", fmt.Sprintf("zebra_%d = %d\nprint('line\\n' * 30)", i, i))
	}
	s.startPage("main")
	b.openAddress(s.lastLink())
	number := func(selector string, n int) string {
		return fmt.Sprintf(`document.%s?.querySelector(".number")?.textContent === "%d"`, selector, n)
	}
	isThere := func(n int) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".turn")].some((t) => { const r = t.getBoundingClientRect(); return t.querySelector(".number")?.textContent === "%d" && r.bottom > 0 && r.top < innerHeight; })`, n)
	}
	const atCode = `document.activeElement.tagName === "TEXTAREA"`
	field := func(text string) string { return fmt.Sprintf(`document.querySelector("textarea").value === %q`, text) }
	b.waitUntil("the last turn is shown", isThere(25))

	b.tapKey("g")
	b.waitUntil("g goes to the start", isThere(1)+" && !("+isThere(25)+")")
	b.tapKey("G")
	b.waitUntil("G goes to the end", isThere(25))
	b.tapKey("k")
	b.waitUntil("k goes to a turn", `document.activeElement.closest(".turn")`)
	here := evalExpression[int](b, `Number(document.activeElement.closest(".turn").querySelector(".number").textContent)`)
	b.tapKey("k")
	b.waitUntil("and to the one before", number(`activeElement.closest(".turn")`, here-1))
	b.tapKey("j")
	b.waitUntil("j goes to the next", number(`activeElement.closest(".turn")`, here))

	evalExpression[bool](b, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
	b.tapKey("c")
	b.waitUntil("c copies the turn", fmt.Sprintf(`window.copied?.includes("zebra_%d = %d") && window.copied.includes("line\nline\n")`, here-1, here-1))
	const shown = `document.activeElement.closest(".turn").innerText.includes("line\nline")`
	b.waitUntil("the turn has its output", shown)
	b.tapKey("o")
	b.waitUntil("o hides it", "!("+shown+")")
	b.tapKey("o")
	b.waitUntil("and shows it", shown)

	b.tapKey("i")
	b.waitUntil("i goes to the code", atCode)
	b.insertText("9000 + zebra_")
	b.pressKeys("\t")
	b.waitUntil("Tab offers completions", `document.querySelectorAll("[role=option]").length >= 25`)
	b.pressKeys(escape)
	b.waitUntil("Esc closes it", `!document.querySelector("[role=option]")?.checkVisibility()`)
	b.insertText("24")
	b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.waitText("9024")
	s.waitOver("main")
	b.waitUntil("the field is empty", field(""))
	evalExpression[bool](b, `(() => {
		const fetch = window.fetch;
		window.fetch = async (to, how) => {
			if (String(to).includes("/run")) await new Promise((go) => { window.go = go; });
			return fetch(to, how);
		};
		return true;
	})()`)
	b.insertText("zebra_1 + 4000")
	b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.waitUntil("the code is being sent", `window.go`)
	b.insertText("if True:")
	evalExpression[bool](b, `(window.go(), true)`)
	b.waitText("4001")
	b.waitUntil("text typed in the meantime stays", field("if True:"))
	b.tapKey("Enter")
	b.waitUntil("Enter is a new line, and it is indented", field("if True:\n    "))
	evalExpression[bool](b, `(document.querySelector("textarea").setSelectionRange(0, 0), true)`)
	b.pressKeys(arrowUp)
	b.waitUntil("the last input is there", field("zebra_1 + 4000"))
	b.pressKeys(arrowDown)
	b.waitUntil("and then the draft", field("if True:\n    "))
	b.pressKeys(escape)
	b.waitUntil("Esc leaves the field", "!("+atCode+")")

	b.tapKey("/")
	b.waitUntil("/ looks for text", `document.activeElement.closest(".find")`)
	b.insertText("zebra_3 =")
	b.waitUntil("it is found", `document.querySelector(".hits li")`)
	b.pressKeys("\r")
	b.waitUntil("its turn is shown", isThere(4))
	b.pressKeys(escape)
	b.tapKey("?")
	b.waitUntil("? lists the keys", `document.querySelector("dialog.help")?.innerText.includes("next and previous turn")`)
	b.pressKeys(escape)
	b.waitUntil("the list is gone", `!document.querySelector("dialog.help")`)
	b.tapKey("u")
	b.waitUntil("u shows all sessions", `document.querySelector(".sessions a")?.checkVisibility()`)
}

func TestPage_Download(t *testing.T) {
	t.Parallel()
	s := newTestDaemon(t)
	b := openTab(t)
	s.openSession("main")
	s.execCode("main", "x = 20 + 3\nprint('x is', x)")
	s.execCode("main", `display({"text/html": "<p>" + "large " * 200_000, "text/plain": "a table"}, raw=True)`)
	s.execCode("main", "1 / 0")
	s.startPage("main")
	b.openAddress(s.lastLink())
	b.waitText("ZeroDivisionError")
	b.waitUntil("the menu has three files", `document.querySelectorAll(".menu a[href^='/download/']").length === 3`)
	files := evalExpression[map[string]string](b, `Promise.all([...document.querySelectorAll(".menu a[href^='/download/']")].map(async (a) => [a.download, await (await fetch(a.href)).text()])).then(Object.fromEntries)`)
	for name, parts := range map[string][]string{
		"main.py":    {"# turn 1 by claude\nx = 20 + 3\n", "# 1 / 0\n"},
		"main.txt":   {"x is 23\n", "a table\n", "ZeroDivisionError"},
		"main.ipynb": {"x is 23", "large large", "a table"},
	} {
		for _, part := range parts {
			if !strings.Contains(files[name], part) {
				t.Errorf("%q is not in %s: %.500s", part, name, files[name])
			}
		}
	}
	var notebook struct {
		Cells []struct {
			Outputs []struct{ Data map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(files["main.ipynb"]), &notebook); err != nil || len(notebook.Cells) != 3 || len(notebook.Cells[1].Outputs) != 1 || len(fmt.Sprint(notebook.Cells[1].Outputs[0].Data["text/html"])) < 1_200_000 {
		t.Errorf("%v: %d cells in %d bytes", err, len(notebook.Cells), len(files["main.ipynb"]))
	}
}
