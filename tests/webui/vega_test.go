//go:build unix

package webui

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// vegaCode defines a function of Python that shows a chart of Vega or Vega-Lite, and some charts.
const vegaCode = `def chart(spec, kind="vegalite.v5", **more):
    display({"application/vnd." + kind + "+json": spec, "text/plain": "a chart"} | more, raw=True)
rows = {"values": [{"a": "A", "b": 28, "c": "x"}, {"a": "B", "b": 55, "c": "y"}, {"a": "C", "b": 43, "c": "x"}, {"a": "D", "b": 91, "c": "y"}]}
bars = {"data": rows, "mark": "bar", "width": 300, "height": 200, "encoding": {
    "x": {"field": "a", "type": "nominal"}, "y": {"field": "b", "type": "quantitative"}, "tooltip": {"field": "b", "type": "quantitative"}}}
exact = {"width": 123, "height": 45, "padding": 0, "autosize": "none", "marks": [
    {"type": "rect", "encode": {"enter": {"x": {"value": 9}, "y": {"value": 9}, "width": {"value": 90}, "height": {"value": 20}, "fill": {"value": "teal"}, "tooltip": {"value": "<b>shown</b>"}}}}]}`

// openVega opens a page with a session that has run code after vegaCode.
func openVega(t *testing.T, code string) (*testDaemon, *browserTab) {
	t.Helper()
	return openMain(t, vegaCode, code)
}

// waitPictures waits until a number of charts are pictures.
func (b *browserTab) waitPictures(n int) {
	b.t.Helper()
	b.waitUntil("the charts are pictures", `[...document.querySelectorAll(".plot .picture img")].filter((one) => one.naturalHeight > 20).length === `+strconv.Itoa(n))
}

// openLiveFrame returns the document of the first live chart, which is in another process.
func (b *browserTab) openLiveFrame() *browserTab {
	b.t.Helper()
	b.waitUntil("the chart is live", `document.querySelector(".plot iframe.live[data-drawn]")`)
	src := evalExpression[string](b, `document.querySelector(".plot iframe.live").src`)
	all, err := chromedp.Targets(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, one := range all {
		if one.URL == src {
			ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithTargetID(one.TargetID))
			b.t.Cleanup(cancel)
			if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("true")); err != nil { // the first call; see openAddress
				b.t.Fatal(err)
			}
			return &browserTab{b.t, ctx}
		}
	}
	b.t.Fatalf("no frame has the address %s", src)
	return nil
}

// mouseOver moves the mouse to a point of the first live chart, and returns its place in the window.
func (b *browserTab) mouseOver(x, y float64) (windowX, windowY float64) {
	b.t.Helper()
	at := evalExpression[[]float64](b, `(() => { const box = document.querySelector(".plot iframe.live").getBoundingClientRect(); return [box.left + 1, box.top + 1]; })()`)
	x, y = at[0]+x, at[1]+y
	b.runSteps(chromedp.MouseEvent(chromedp.MouseMoved, x-3, y), chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	return x, y
}

// Charts of Vega and Vega-Lite are drawn without a click, by the program's own copy of the libraries.
func TestVegaCharts(t *testing.T) {
	t.Parallel()

	t.Run("draws bars, layers, facets and concatenated charts as pictures", func(t *testing.T) {
		t.Parallel()
		_, b := openVega(t, `chart(bars)
points = {"mark": {"type": "point"}, "params": [{"name": "brush", "select": "interval"}], "encoding": {"x": {"field": "a", "type": "nominal"}, "y": {"field": "b", "type": "quantitative"},
    "color": {"condition": {"param": "brush", "field": "c", "type": "nominal"}, "value": "grey"}}}
chart({"data": rows, "layer": [points, {"mark": {"type": "rule", "color": "firebrick"}, "encoding": {"y": {"aggregate": "mean", "field": "b", "type": "quantitative"}}}]}, "vegalite.v6")
chart({"data": rows, "facet": {"field": "c", "type": "nominal"}, "spec": points | {"height": 90}}, "vegalite.v4")
chart({"datasets": {"d": rows["values"]}, "data": {"name": "d"}, "hconcat": [points, points]})`)
		b.setSize(1100, 1700)
		b.waitPictures(4)
		b.takeScreenshot("vega-pictures")
		b.setDark(true)
		b.takeScreenshot("vega-pictures-dark")
	})

	t.Run("draws a chart in its own size, or in the width of the page", func(t *testing.T) {
		t.Parallel()
		_, b := openVega(t, `chart(exact, "vega.v5"); chart(exact, "vega.v6"); chart(bars | {"width": "container", "height": "container"})`)
		b.waitPictures(3)
		b.takeScreenshot("vega-sizes")
		if got := evalExpression[string](b, `[...document.querySelectorAll(".plot")].map((plot) => {
			const { naturalWidth: width, naturalHeight: height } = plot.querySelector("img");
			return (width === plot.clientWidth ? "all" : width) + "x" + height;
		}).join()`); got != "123x45,123x45,allx450" {
			t.Errorf("the pictures have the sizes %s", got)
		}
	})

	t.Run("makes a chart live on Enter, with its tooltips and selections", func(t *testing.T) {
		t.Parallel()
		_, b := openVega(t, `chart(bars | {"params": [{"name": "pick", "select": "point"}, {"name": "n", "value": 7, "bind": {"input": "range", "max": 9}}],
    "transform": [{"calculate": "'<b>' + datum.b + '</b>'", "as": "said"}],
    "encoding": bars["encoding"] | {"tooltip": {"field": "said", "type": "nominal"}, "color": {"condition": {"param": "pick", "value": "teal"}, "value": "silver"}}})`)
		b.waitPictures(1)
		evalExpression[bool](b, `(document.querySelector(".plot .picture").focus(), true)`)
		b.pressKeys("\r")
		frame := b.openLiveFrame()
		b.mouseOver(310, 150)
		frame.waitUntil("the tooltip is text", `document.getElementById("place").title === "<b>91</b>"`)
		const fills = `[...document.querySelectorAll("g.mark-rect path")].map((one) => one.getAttribute("fill")).join()`
		if got := evalExpression[string](frame, fills); got != "teal,teal,teal,teal" {
			t.Errorf("the bars have the colours %s", got)
		}
		x, y := b.mouseOver(310, 150)
		b.runSteps(chromedp.MouseClickXY(x, y))
		frame.waitUntil("the other bars lose their colour", fills+` === "silver,silver,silver,teal"`)
		b.takeScreenshot("vega-live")
	})

	t.Run("draws a chart of altair without vl-convert", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		if found, err := filepath.Glob(filepath.Join(cache, "turnstone", "charts", "lib", "python3*", "site-packages", "altair")); err != nil || len(found) == 0 {
			t.Skip("altair is not installed: scripts/setup-dev installs it")
		}
		s.openChartSession("main")
		s.execCode("main", "import altair as alt; alt.Chart(alt.Data(values=[{'a': 1, 'b': 2}, {'a': 2, 'b': 5}]), title='Sales').mark_line(point=True).encode(x='a:Q', y='b:Q').interactive()")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitPictures(1)
		b.takeScreenshot("vega-altair")
	})

	t.Run("shows the picture that the session has drawn, and a live chart on request", func(t *testing.T) {
		t.Parallel()
		_, b := openVega(t, `chart(bars, **{"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg' width='60' height='40'><rect width='50' height='30' fill='teal'/></svg>"})`)
		b.waitUntil("the drawing of the session is shown", `document.querySelector(".plot .framed iframe")?.dataset.height > 30`)
		b.takeScreenshot("vega-drawn")
		b.clickElement(".plot button", "Explore this chart")
		b.waitUntil("the chart is live in its place", `document.querySelector(".plot iframe.live[data-drawn]")?.clientHeight > 200 && !document.querySelector(".plot .framed")`)
	})

	t.Run("says why a chart is not drawn", func(t *testing.T) {
		t.Parallel()
		for code, want := range map[string]string{
			`chart(bars | {"data": {"url": "data/cars.json"}})`:                                  `its data is at the address "data/cars.json", and nothing is loaded here`,
			`chart({"data": [{"name": "t", "url": {"signal": "'x'"}}], "marks": []}, "vega.v6")`: `its data is at the address {"signal":"'x'"}`,
			`chart(bars | {"data": {"values": "a,b\n1,2", "format": {"type": "csv"}}})`:          "reading data of the format csv compiles code",
			`chart(bars | {"transform": [{"filter": "datum.b > nosuch"}]})`:                      `Unrecognized signal name: "nosuch"`,
			`chart(["no", "chart"])`: "its data is not that of a Vega chart",
			`chart({"data": [{"name": "t", "values": [1], "transform": [{"type": "formula", "expr": "datum.x.y.z", "as": "u"}]}], "marks": []}, "vega.v5")`: "Cannot read properties of undefined",
		} {
			_, b := openVega(t, code)
			b.waitText("Not drawn here: ")
			b.waitText(want)
			b.takeScreenshot("vega-why")
		}
	})

	t.Run("ends a chart that makes too many rows and draws the next one", func(t *testing.T) {
		t.Parallel()
		_, b := openVega(t, `chart({"data": {"sequence": {"start": 0, "stop": 1e9}}, "mark": "point", "encoding": {"x": {"field": "data", "type": "quantitative"}}})
chart(bars); chart(exact, "vega.v6")`)
		b.waitText("Not drawn here: it was not drawn within 10 s")
		b.waitPictures(2)
		b.takeScreenshot("vega-loop")
	})
}

// The data of a chart is foreign, and so are its expressions.
func TestVegaCharts_Hostile(t *testing.T) {
	t.Parallel()
	e := newHTTPListener(t)
	_, b := openVega(t, strings.ReplaceAll(`text = '</script><script>parent.ran=1;fetch("EAR/end")</script><!--<script><img src=x onerror=fetch("EAR/onerror")>'
embed = {"usermeta": {"embedOptions": {"actions": True, "loader": {"baseURL": "EAR/"}, "sourceHeader": text, "patch": "EAR/patch", "editorUrl": "EAR/editor", "ast": False, "bind": "body"}}}
def marks(**encoding):
    return embed | {"height": 120, "width": 400, "title": text, "background": "url(EAR/background)", "data": {"values": [{"a": text, "b": 9, "script": "javascript:parent.ran=1", "link": "EAR/link", "image": "EAR/image",
        "picture": "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><script>fetch('EAR/svg')</script><image href='EAR/inner'/></svg>"}]},
        "mark": {"type": "image", "width": 400, "height": 120} if "url" in encoding else {"type": "bar", "cursor": "url(EAR/cursor) 1 1, pointer", "fill": "url(EAR/fill)", "size": 400},
        "encoding": {"x": {"field": "a", "type": "nominal", "title": text}, "y": {"field": "b", "type": "quantitative"}, "tooltip": {"field": "a", "type": "nominal"}} | {k: {"field": v, "type": "nominal"} for k, v in encoding.items()}}
chart(marks(href="script"))
chart(marks(href="link"))
chart(marks(url="image", href="script"))
chart(marks(url="picture", href="link"))
chart(marks() | {"params": [{"name": n, "value": text, "bind": {"input": kind, "element": at, "name": text, "options": [text], "labels": [text], "onclick": "parent.ran=1", "formaction": "EAR/form"}}
    for n, kind, at in (("p", "select", "html"), ("q", "text", "body"), ("r", "radio", "#spec"), ("s", "range", "#place"))]})
for attempt in ("datum.constructor.constructor", "replace('a', 'a', event.view.eval)", "[].constructor.constructor", "event.view.parent.ran = 1", "sort([1, 2], event.view.Function)",
                "{toString: event.view.setTimeout, valueOf: 'fetch(1)'} + ''", "{'__proto__': event.view, then: event.view.eval}", "warn(event.view.fetch)", "regexp.constructor('parent.ran=1')()"):
    chart({"width": 400, "height": 60, "signals": [{"name": "s", "on": [{"events": "mousemove, click, window:message", "update": attempt}]}], "marks": exact["marks"]}, "vega.v6")
chart(exact | {"signals": [{"name": "s", "value": 0, "on": [{"events": {"type": "timer", "throttle": 1}, "update": "s + 1"}]}]}, "vega.v6")
chart(exact, "vega.v5")`, "EAR", e.URL))
	const charts = 16
	b.waitUntil("the charts are there", `document.querySelectorAll(".plot").length === `+strconv.Itoa(charts))
	for n := range charts {
		at := `document.querySelectorAll(".plot")[` + strconv.Itoa(n) + `]`
		done := at + `.querySelector(".picture img, iframe.live") || ` + at + `.innerText.includes("Not drawn here")`
		b.waitUntil("the chart is drawn, or not drawn for a reason", `(`+turnWheel+`, `+at+`.scrollIntoView(), `+done+`)`)
		if evalExpression[bool](b, at+`.innerText.includes("Not drawn here")`) {
			if n < 4 || n >= charts-2 { // those without an illegal expression or element
				t.Errorf("chart %d: %s", n, evalExpression[string](b, at+`.innerText`))
			}
			continue
		}
		evalExpression[bool](b, `(`+at+`.querySelector(".picture")?.click(), true)`) // unless a click at the chart before has hit it
		b.waitUntil("the chart is live", at+`.querySelector("iframe.live[data-drawn]") || /not drawn/i.test(`+at+`.innerText)`)
		evalExpression[bool](b, `(`+turnWheel+`, `+at+`.scrollIntoView(), true)`)
		for y := 80.0; y < 320; y += 24 { // over titles, bars, images and links
			b.runSteps(chromedp.MouseEvent(chromedp.MouseMoved, 300, y), chromedp.MouseClickXY(230+y/5, y))
		}
	}
	b.takeScreenshot("vega-hostile")
	if evalExpression[bool](b, `Boolean(window.ran) || document.title !== "main – Turnstone"`) {
		t.Error("a chart has run a script")
	}
	if n := evalExpression[float64](b, `[...document.querySelectorAll(".plot iframe")].filter((f) => f.getAttribute("sandbox") !== "allow-scripts" || !f.src.startsWith(location.origin + "/frame/")).length`); n != 0 {
		t.Errorf("%v frames have more rights", n)
	}
	if requests := e.requestList(); len(requests) != 0 {
		t.Errorf("the listener received requests of charts: %v", requests)
	}
}
