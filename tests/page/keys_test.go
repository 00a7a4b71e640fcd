//go:build unix

package page

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

// Keys, as browsers name them to chromedp.
const (
	arrowUp   = "\u0304"
	arrowDown = "\u0301"
	escape    = "\x1b"
)

// tap presses a key with its text in one event, as a keyboard does: a page that takes the key then
// keeps the text out of a field.
func (b *tab) tap(key string) {
	b.t.Helper()
	texts := map[string]string{"Enter": "\r"}
	b.do(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
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

func TestPage_KeysDoWhatItsListSays(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	s.open("main")
	for i := range 25 {
		s.exec("main", fmt.Sprintf("zebra_%d = %d\nprint('line\\n' * 30)", i, i))
	}
	s.view("main")
	b.open(s.link())
	number := func(selector string, n int) string {
		return fmt.Sprintf(`document.%s?.querySelector(".number")?.textContent === "%d"`, selector, n)
	}
	isThere := func(n int) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".turn")].some((t) => { const r = t.getBoundingClientRect(); return t.querySelector(".number")?.textContent === "%d" && r.bottom > 0 && r.top < innerHeight; })`, n)
	}
	const atCode = `document.activeElement.tagName === "TEXTAREA"`
	field := func(text string) string { return fmt.Sprintf(`document.querySelector("textarea").value === %q`, text) }
	b.until("the last turn is shown", isThere(25))

	b.tap("g")
	b.until("g goes to the beginning", isThere(1)+" && !("+isThere(25)+")")
	b.tap("G")
	b.until("G goes to the end", isThere(25))
	b.tap("k")
	b.until("k goes to a turn", `document.activeElement.closest(".turn")`)
	here := eval[int](b, `Number(document.activeElement.closest(".turn").querySelector(".number").textContent)`)
	b.tap("k")
	b.until("and to the one before", number(`activeElement.closest(".turn")`, here-1))
	b.tap("j")
	b.until("j goes to the next", number(`activeElement.closest(".turn")`, here))

	eval[bool](b, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
	b.tap("c")
	b.until("c copies the turn", fmt.Sprintf(`window.copied?.includes("zebra_%d = %d") && window.copied.includes("line\nline\n")`, here-1, here-1))
	const shown = `document.activeElement.closest(".turn").innerText.includes("line\nline")`
	b.until("the turn has its output", shown)
	b.tap("o")
	b.until("o hides it", "!("+shown+")")
	b.tap("o")
	b.until("and shows it", shown)

	b.tap("i")
	b.until("i goes to the code", atCode)
	b.insert("9000 + zebra_")
	b.press("\t")
	b.until("Tab offers what is possible", `document.querySelectorAll("[role=option]").length >= 25`)
	b.press(escape)
	b.until("Esc closes it", `!document.querySelector("[role=option]")?.checkVisibility()`)
	b.insert("24")
	b.press("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.sees("9024")
	s.over("main")
	b.until("the field is empty", field(""))
	eval[bool](b, `(() => {
		const fetch = window.fetch;
		window.fetch = async (to, how) => {
			if (String(to).includes("/run")) await new Promise((go) => { window.go = go; });
			return fetch(to, how);
		};
		return true;
	})()`)
	b.insert("zebra_1 + 4000")
	b.press("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.until("the code is on its way", `window.go`)
	b.insert("if True:")
	eval[bool](b, `(window.go(), true)`)
	b.sees("4001")
	b.until("what was typed meanwhile stays", field("if True:"))
	b.tap("Enter")
	b.until("Enter is a new line, and it is indented", field("if True:\n    "))
	eval[bool](b, `(document.querySelector("textarea").setSelectionRange(0, 0), true)`)
	b.press(arrowUp)
	b.until("the last input is there", field("zebra_1 + 4000"))
	b.press(arrowDown)
	b.until("and then the draft", field("if True:\n    "))
	b.press(escape)
	b.until("Esc leaves the field", "!("+atCode+")")

	b.tap("/")
	b.until("/ looks for text", `document.activeElement.closest(".find")`)
	b.insert("zebra_3 =")
	b.until("it is found", `document.querySelector(".hits li")`)
	b.press("\r")
	b.until("its turn is shown", isThere(4))
	b.press(escape)
	b.tap("?")
	b.until("? lists the keys", `document.querySelector("dialog.help")?.innerText.includes("next and previous turn")`)
	b.press(escape)
	b.until("the list is gone", `!document.querySelector("dialog.help")`)
	b.tap("u")
	b.until("u shows all sessions", `document.querySelector(".sessions a")?.checkVisibility()`)
}

func TestPage_GivesASessionAsAFile(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := browser(t)
	s.open("main")
	s.exec("main", "x = 20 + 3\nprint('x is', x)")
	s.exec("main", `display({"text/html": "<p>" + "large " * 200_000, "text/plain": "a table"}, raw=True)`)
	s.exec("main", "1 / 0")
	s.view("main")
	b.open(s.link())
	b.sees("ZeroDivisionError")
	b.until("the menu has three files", `document.querySelectorAll(".menu a[href^='/download/']").length === 3`)
	files := eval[map[string]string](b, `Promise.all([...document.querySelectorAll(".menu a[href^='/download/']")].map(async (a) => [a.download, await (await fetch(a.href)).text()])).then(Object.fromEntries)`)
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
