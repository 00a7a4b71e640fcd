//go:build unix

package webui

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/internal/testkit/interpreters"
	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"

	"github.com/chromedp/chromedp"
)

// openChartSession opens a session whose Python has plotly and bokeh as published.
func (d *testDaemon) openChartSession(name string) {
	d.t.Helper()
	python := interpreters.ChartsPython(d.t)
	if _, err := d.dialDaemon().CreateSession(d.t.Context(), protocol.CreateParams{Name: name, Runtime: python}); err != nil {
		d.t.Fatal(err)
	}
}

// openCharts opens a page with a session that has run code after the imports of both libraries.
func openCharts(t *testing.T, code string) (*testDaemon, *browserTab) {
	t.Helper()
	s := newTestDaemon(t)
	b := openTab(t)
	s.openChartSession("main")
	s.execCode("main", "import plotly.graph_objects as go\nfrom bokeh.plotting import figure, show")
	s.execCode("main", code)
	s.startPage("main")
	b.openAddress(s.lastLink())
	return s, b
}

// countLive is an expression for the number of live charts.
const countLive = `document.querySelectorAll(".plot iframe.live").length`

// A chart of a library that its makers have published is drawn without a click.
func TestCharts(t *testing.T) {
	t.Parallel()

	t.Run("draws plotly as a picture and makes it live on Enter", func(t *testing.T) {
		t.Parallel()
		_, b := openCharts(t, "go.Figure(go.Scatter(y=[1, 3, 2], name='a'), layout={'title': {'text': 'Sales'}})")
		b.waitUntil("the chart is a picture", `document.querySelector(".plot .picture img")?.naturalHeight > 100`)
		b.takeScreenshot("chart-plotly")
		evalExpression[bool](b, `(document.querySelector(".plot .picture").focus(), true)`)
		b.pressKeys("\r")
		b.waitUntil("the chart is live", `document.querySelector(".plot iframe.live[data-drawn]")?.clientHeight > 400`)
		b.takeScreenshot("chart-plotly-live")
	})

	t.Run("draws bokeh with its widgets", func(t *testing.T) {
		t.Parallel()
		_, b := openCharts(t, `from bokeh.layouts import column
from bokeh.models import Slider, DataTable, TableColumn, ColumnDataSource, Div, CustomJS
p = figure(title="Sales", height=250, output_backend="webgl")
_ = p.line([1, 2, 3], [1, 3, 2])
source = ColumnDataSource({"a": [1, 2]})
slider = Slider(start=0, end=9, value=3, title="n")
slider.js_on_change("value", CustomJS(code="parent.ran = 1"))
show(column(p, slider, DataTable(source=source, columns=[TableColumn(field="a", title="A")], height=120), Div(text="<b>bold</b>")))`)
		b.waitUntil("the chart is live", `document.querySelector(".plot iframe.live[data-drawn]")?.clientHeight > 250`)
		b.waitText("(CustomJS) do not run here")
		b.takeScreenshot("chart-bokeh")
	})

	// Frames are expensive: each compiles the library again.
	t.Run("has at most 6 live charts of a hundred", func(t *testing.T) {
		t.Parallel()
		_, b := openCharts(t, "for n in range(100): go.Figure(go.Scatter(y=[1, 3, n]), layout={'height': 120, 'margin': {'t': 10, 'b': 10}}).show()")
		b.waitUntil("the charts are there", `document.querySelectorAll(".plot").length === 100`)
		b.setSize(1100, 3000)
		gaps := evalExpression[[]float64](b, `(async () => {
			const times = [], seen = new Set();
			new MutationObserver(() => {
				for (const p of document.querySelectorAll(".plot .picture")) if (!seen.has(p)) { seen.add(p); times.push(performance.now()); }
			}).observe(document.body, { childList: true, subtree: true });
			for (const chart of document.querySelectorAll(".plot")) {
				if (!chart.querySelector(".picture")) { `+turnWheel+`; chart.scrollIntoView(); }
				while (!chart.querySelector(".picture")) await new Promise((r) => setTimeout(r, 20));
			}
			return times.slice(1).map((t, i) => t - times[i]);
		})()`)
		b.setSize(1100, 800)
		slices.Sort(gaps)
		if len(gaps) < 50 { // some are drawn before they are observed
			t.Fatalf("%d charts were drawn", len(gaps)+1)
		}
		t.Logf("a further picture took %.0f ms in the median, %.0f ms in the 90th percentile", gaps[len(gaps)/2], gaps[len(gaps)*9/10])
		if n := evalExpression[float64](b, countLive+` + 1 - document.querySelectorAll(".drawer").length`); n != 0 {
			t.Errorf("%v live frames before any click", n)
		}
		b.takeScreenshot("chart-hundred")
		for n := range 9 {
			begin := time.Now()
			evalExpression[bool](b, fmt.Sprintf(`(document.querySelectorAll(".plot")[%d].querySelector(".picture").click(), true)`, n*4))
			b.waitUntil("the chart is live", fmt.Sprintf(`document.querySelectorAll(".plot")[%d].querySelector("iframe.live[data-drawn]")`, n*4))
			t.Logf("a live chart took %d ms", time.Since(begin).Milliseconds())
			if live := evalExpression[float64](b, countLive); live > 6 {
				t.Fatalf("%v charts are live", live)
			}
		}
		b.waitUntil("the oldest live charts are pictures again", `[0, 4, 8].every((n) => document.querySelectorAll(".plot")[n].querySelector(".picture"))`)
	})

	t.Run("has at most 6 live charts of bokeh", func(t *testing.T) {
		t.Parallel()
		_, b := openCharts(t, "for n in range(9):\n    p = figure(height=60, width=200, toolbar_location=None)\n    _ = p.line([1, 2], [1, n])\n    show(p)")
		b.setSize(1100, 2400)
		b.waitUntil("6 are live and the others are offered", `document.querySelectorAll(".plot iframe.live[data-drawn]").length === 6 && document.querySelectorAll(".plot .waiting button").length === 3`)
		b.clickElement(".plot .waiting button", "Draw this chart")
		b.waitUntil("the chosen one is live in place of the oldest", `document.querySelectorAll(".plot iframe.live[data-drawn]").length === 6 && document.querySelector(".plot .waiting button")`)
	})

	// The data of a chart can keep a library busy for minutes.
	t.Run("ends a chart that loops and draws the next one", func(t *testing.T) {
		t.Parallel()
		bins := "dict(start=0, end=1, size=1e-4)"
		_, b := openCharts(t, "go.Figure(go.Histogram2d(x=[0, 1], y=[0, 1], xbins="+bins+", ybins="+bins+"), layout={'height': 100}).show()\ngo.Figure(go.Bar(y=[1]), layout={'height': 100}).show()")
		b.waitText("Not drawn here: it was not drawn within 10 s. Try again")
		// A busy machine may need more than 10 s for it, too.
		b.waitUntil("the next chart is drawn", `(() => {
			const next = document.querySelectorAll(".plot")[1];
			next.querySelector(".remark button")?.click();
			return next.querySelector(".picture");
		})()`)
		b.takeScreenshot("chart-loop")
		b.clickElement(".plot .remark button", "Try again")
		b.waitUntil("the chart is being drawn again", `document.querySelector(".plot .waiting")?.textContent === "Drawing the chart…"`)
	})

	t.Run("takes messages only from frames of charts", func(t *testing.T) {
		t.Parallel()
		_, b := openCharts(t, `p = figure(height=300); _ = p.line([1], [1]); show(p)
display({"text/html": "<script>setInterval(() => parent.postMessage({height: 900, failed: 'from another frame'}, '*'), 10)</script>"}, raw=True)`)
		b.waitUntil("the chart is live", `document.querySelector(".plot iframe.live[data-drawn]")?.clientHeight > 200`)
		height := evalExpression[float64](b, `(async () => {
			const other = document.createElement("iframe");
			other.sandbox = "allow-scripts";
			for (let seq = 1; seq < 30 && !other.src; seq++) {
				const at = "/main/" + seq + "/0", html = await fetch("/blob" + at);
				if (html.ok && (await html.text()).includes("another frame")) other.src = "/frame" + at + "?scripts=run";
			}
			let heard = 0;
			const over = new Promise((resolve) => addEventListener("message", (e) => {
				postMessage({ height: 900, failed: "from the page" }, "*");
				if (e.source === other.contentWindow && ++heard > 20) resolve();
			}));
			document.body.append(other);
			await over;
			return document.querySelector(".plot iframe.live").clientHeight;
		})()`)
		if height > 500 || evalExpression[string](b, `document.querySelector(".plot .remark").textContent`) != "" {
			t.Errorf("the chart is %v px tall, or shows a message of another frame", height)
		}
	})

	// The daemon reads the file of the library where the session is. The worker has no part in it.
	t.Run("draws a chart of a remote while its session is busy", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openChartSession("main")
		s.execCode("main", "import plotly.graph_objects as go; go.Figure(go.Bar(y=[1]))")
		far := filepath.Join(s.dir, "far")
		text := "#!/bin/sh\nexport PATH='" + filepath.Dir(replbin.Path()) + "':$PATH TURNSTONE_SOCKET='" + s.socket + "'\nexec \"$@\"\n"
		if err := testexec.WriteExecutable(far, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.dialDaemon().StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "import time; time.sleep(600)", Continues: true}); err != nil {
			t.Fatal(err)
		}
		s.startPage("main", "--via", far)
		b.openAddress(s.lastLink())
		b.waitUntil("the chart is a picture", `document.querySelector(".plot .picture img")?.naturalHeight > 100 && document.querySelector(".dot.running")`)
	})

	// Plotly Express uses WebGL from 1,000 points on.
	t.Run("draws traces of WebGL as SVG", func(t *testing.T) {
		t.Parallel()
		s, b := openCharts(t, "1")
		b.waitText("Started")
		evalExpression[bool](b, `((make) => { URL.createObjectURL = (blob) => { blob.text().then((text) => { window.picture = text; }); return make(blob); }; return true; })(URL.createObjectURL)`)
		s.execCode("main", "go.Figure([go.Scattergl(y=[n % 97 for n in range(3000)], mode='markers'), go.Scatterpolargl(r=[1, 2, 3], theta=[0, 90, 180])])")
		b.waitUntil("the picture has all points", `window.picture?.split('class="point"').length > 3000`)
		b.takeScreenshot("chart-webgl")
		evalExpression[bool](b, `(document.querySelector(".plot .picture").click(), true)`)
		b.waitUntil("the chart is live", `document.querySelector(".plot iframe.live[data-drawn]")`)
	})

	// A picture with a background of its own stays as its code made it.
	t.Run("is dark in a dark page", func(t *testing.T) {
		t.Parallel()
		_, b := openCharts(t, "go.Figure(go.Bar(y=[1, 2])).show()\ngo.Figure(go.Bar(y=[1, 2]), layout={'plot_bgcolor': 'white'}).show()")
		b.setSize(1100, 1400)
		b.waitUntil("both are drawn", `[...document.querySelectorAll(".plot .picture img")].filter((i) => i.complete && i.naturalHeight > 100).length === 2`)
		for _, dark := range []bool{false, true} {
			b.setDark(dark)
			want := map[bool]string{false: "255 255", true: "27 255"}[dark]
			b.waitUntil(fmt.Sprintf("with dark %v the corners have the right colours", dark), `[...document.querySelectorAll(".plot .picture img")].map((image) => {
				const canvas = document.createElement("canvas").getContext("2d");
				canvas.drawImage(image, 0, 0);
				return canvas.getImageData(5, 5, 1, 1).data[0];
			}).join(" ") === "`+want+`"`)
			b.takeScreenshot(fmt.Sprintf("chart-dark-%v", dark))
		}
	})

	t.Run("is drawn for printing, however far away", func(t *testing.T) {
		t.Parallel()
		_, b := openCharts(t, "for n in range(12): go.Figure(go.Bar(y=[1, n])).show()")
		b.waitUntil("the charts are there", `document.querySelectorAll(".plot").length === 12`)
		evalExpression[bool](b, `(window.print = () => { window.printed = document.querySelectorAll(".plot .picture img").length; }, document.querySelector(".top .menu").open = true)`)
		b.clickElement(".top .menu button", "Print…")
		b.waitUntil("all are pictures", `window.printed === 12`)
	})

	t.Run("says why a chart is not drawn", func(t *testing.T) {
		t.Parallel()
		for code, want := range map[string]string{
			"go.Figure(go.Splom(dimensions=[dict(values=[1, 2])]))":                       `traces of type "splom" compile code from text`,
			"go.Figure(go.Parcoords(dimensions=[dict(values=[1, 2])]))":                   `traces of type "parcoords" compile code from text`,
			"go.Figure(go.Scattergeo(lon=[1], lat=[1]))":                                  "load maps from the network",
			"import plotly; f = go.Figure(); plotly.__file__ = '/nowhere/__init__.py'\nf": "cannot be read: no such file",
		} {
			_, b := openCharts(t, code)
			b.waitText("Not drawn here: ")
			b.waitText(want)
			b.waitText("plotly chart")
			b.takeScreenshot("chart-why")
		}
	})
}

// The data of a chart is foreign. Attacks on the file of the library are in TestCharts_ForeignFile.
func TestCharts_Hostile(t *testing.T) {
	t.Parallel()
	e := newHTTPListener(t)
	code := strings.ReplaceAll(`link = '<a href="javascript:parent.ran=1;alert(1)">click here and here and here</a><a href="EAR/link">x</a><img src=x onerror="fetch(\'EAR/onerror\')"><b>bold</b>'
end = '</script><script>parent.ran=1;fetch("EAR/end")</script><!--<script>'
frames = '<iframe srcdoc="<script>fetch(\'EAR/srcdoc\')</script>"></iframe><link rel=preconnect href="EAR"><meta http-equiv=refresh content="0;url=EAR/refresh">'
figs = [go.Figure(go.Bar(x=[end, link, frames], y=[1, 2, 3], text=[link, end, frames], hovertext=link, name=link), layout=dict(
    title=dict(text=text, font=dict(size=40), x=0), height=5000, images=[dict(source='EAR/image', x=0, y=1, sizex=1, sizey=1)], annotations=[dict(text=text, x=0, y=0)], xaxis=dict(title=dict(text=text))))
    for text in (link, end, frames)]
for f in figs: f.show(config=dict(plotlyServerURL='EAR/', showSendToCloud=True, editable=True))
for f in figs: f.show()
from bokeh.models import Div, DataTable, TableColumn, ColumnDataSource, HTMLTemplateFormatter, Tooltip
from bokeh.layouts import column
for text in (link, end, frames):
    p = figure(title=text, tooltips=text); _ = p.line([1, 2], [1, 2])
    show(column(p, Div(text=text), DataTable(source=ColumnDataSource({"a": [text]}), columns=[TableColumn(field="a", title=text, formatter=HTMLTemplateFormatter(template=text))], height=90)))`, "EAR", e.URL)
	_, b := openCharts(t, code)
	b.waitUntil("the charts are there", `document.querySelectorAll(".plot").length === 9`)
	for n := range 9 {
		at := fmt.Sprintf(`document.querySelectorAll(".plot")[%d]`, n)
		b.waitUntil("the chart is drawn", `(`+turnWheel+`, `+at+`.scrollIntoView(), `+at+`.querySelector(".picture img, iframe.live"))`)
		evalExpression[bool](b, `(`+at+`.querySelector(".picture")?.click(), true)`)
		b.waitUntil("the chart is live", at+`.querySelector("iframe.live[data-drawn]") || `+at+`.innerText.includes("not drawn")`)
		if height := evalExpression[float64](b, at+`.querySelector("iframe").clientHeight`); height < 50 || height > 1200 {
			t.Errorf("the frame of chart %d is %v px tall", n, height)
		}
		evalExpression[bool](b, `(`+turnWheel+`, `+at+`.scrollIntoView(), true)`)
		for y := 80.0; y < 600; y += 20 { // over titles, bars and links
			b.runSteps(chromedp.MouseEvent(chromedp.MouseMoved, 300, y), chromedp.MouseClickXY(200+y/5, y))
		}
	}
	b.takeScreenshot("chart-hostile")
	if evalExpression[bool](b, `Boolean(window.ran) || document.title !== "main – Turnstone"`) {
		t.Error("a chart has run a script")
	}
	// A frame that was navigated has another document, and does not answer.
	if n := evalExpression[float64](b, `[...document.querySelectorAll(".plot iframe")].filter((f) => f.getAttribute("sandbox") !== "allow-scripts" || !f.src.startsWith(location.origin + "/frame/")).length`); n != 0 {
		t.Errorf("%v frames have more rights", n)
	}
	if requests := e.requestList(); len(requests) != 0 {
		t.Errorf("the listener received requests of charts: %v", requests)
	}
}

// The code of a session names the file of the library. Only published builds come out.
func TestCharts_ForeignFile(t *testing.T) {
	t.Parallel()
	_, b := openCharts(t, `import os, plotly
real = os.path.join(os.path.dirname(plotly.__file__), "package_data", "plotly.min.js")
data = open(real, "rb").read()
open("off.js", "wb").write(data[:-1] + b" ")
open("secret", "w").write("a secret")
open("large.js", "wb").write(bytes(17 << 20))
os.symlink("secret", "link.js")
os.symlink(real, "good.js")
os.mkfifo("pipe.js")
kind = "application/vnd.plotly.v1+json"
for name in ("good.js", "off.js", "secret", "large.js", "link.js", "pipe.js", "/proc/self/mem", "/dev/zero", "/etc/passwd", ".", "missing.js"):
    display({kind: {"data": [{"type": "bar", "y": [1]}], "layout": {"height": 60}}, "text/plain": name}, raw=True, metadata={kind: {"turnstone_library": [os.path.abspath(name)]}})`)
	b.waitUntil("the first chart is drawn", `document.querySelector(".plot .picture")`)
	b.waitUntil("the others are not", `(() => { `+turnWheel+`; for (const c of document.querySelectorAll(".plot")) c.scrollIntoView(); return [...document.querySelectorAll(".plot")].filter((c) => c.innerText.includes("Not drawn here")).length === 10 })()`)
	b.takeScreenshot("chart-files")
	if text := evalExpression[string](b, `document.querySelector("#app").innerText`); strings.Contains(text, "a secret\n") || strings.Contains(text, "root:") {
		t.Errorf("the page shows a file: %s", text)
	}
}
