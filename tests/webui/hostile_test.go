//go:build unix

package webui

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// An httpListener records every connection, and every request that a result sends to another
// server.
type httpListener struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
}

func newHTTPListener(t *testing.T) *httpListener {
	e := &httpListener{}
	note := func(what string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.requests = append(e.requests, what)
	}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r.URL.Path)
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}))
	e.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			note("a connection")
		}
	}
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func (l *httpListener) requestList() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.requests...)
}

// hostilePayloads are documents that try to run code, to connect or to deceive. EAR stands for the
// address of the listener. Each payload requests its own paths there.
var hostilePayloads = map[string]string{
	"script":     `<script>fetch("EAR/script");parent.ran=1</script>`,
	"onerror":    `<img src=x onerror='fetch("EAR/onerror")'>`,
	"image":      `<img src="EAR/image">`,
	"svg":        `<svg onload='fetch("EAR/svg")'><image href="EAR/svgimage"/><use href="EAR/use#x"/></svg>`,
	"onload":     `<body onload='fetch("EAR/onload")' onpageshow='fetch("EAR/onpageshow")'>`,
	"srcdoc":     `<iframe srcdoc="<script>fetch('EAR/srcdoc')</script>"></iframe>`,
	"frame":      `<iframe src="EAR/frame"></iframe><iframe src="javascript:fetch('EAR/js')"></iframe>`,
	"form":       `<form id=f action="EAR/form" method=post><input name=a></form><script>f.submit()</script>`,
	"refresh":    `<meta http-equiv=refresh content="0;url=EAR/refresh"><META http-equiv=refresh content="0;url=?scripts=run">`,
	"itself":     `<a id=y href="?scripts=run">y</a><b onclick='fetch("EAR/click")'>z</b><style>#y:target{}</style>`,
	"height":     `<img name=documentElement><img name=body><form name=postMessage></form><b style="position:absolute;height:9e9px">x</b>`,
	"base":       `<base href="EAR/"><img src=base>`,
	"links":      `<link rel=stylesheet href="EAR/sheet"><link rel=prefetch href="EAR/prefetch"><link rel=preload as=image href="EAR/preload"><link rel=modulepreload href="EAR/module"><link rel=icon href="EAR/icon">`,
	"connect":    `<link rel=preconnect href="EAR"><LINK rel=preconnect href="EAR/">`,
	"connects":   `<iframe srcdoc="&#60;link rel=preconnect href='EAR'&#62;"></iframe>`,
	"object":     `<object data="EAR/object"></object><embed src="EAR/embed">`,
	"media":      `<video src="EAR/video" autoplay></video><audio src="EAR/audio" autoplay></audio>`,
	"focus":      `<input autofocus onfocus='fetch("EAR/focus")'><details open ontoggle='fetch("EAR/toggle")'></details>`,
	"mutation":   `<math><mtext><table><mglyph><style><img src=x onerror='fetch("EAR/mutation")'></style></mglyph></table></mtext></math>`,
	"noscript":   `<noscript><p title="</noscript><img src=x onerror=fetch('EAR/noscript')>"></noscript>`,
	"shadow":     `<div><template shadowrootmode=open><script>fetch("EAR/shadow")</script><img src="EAR/shadowimage"></template></div>`,
	"import":     `<style>@import url("EAR/import");body{background:url("EAR/background")}@font-face{font-family:x;src:url("EAR/font")}p{font-family:x}</style><p>x`,
	"top":        `<script>top.location="EAR/top";open("EAR/open")</script>`,
	"beacon":     `<script>navigator.sendBeacon("EAR/beacon");new WebSocket("EAR/socket".replace("http","ws"));new EventSource("EAR/events")</script>`,
	"webrtc":     `<script>let c=new RTCPeerConnection({iceServers:[{urls:"stun:127.0.0.1:1"}]});c.createDataChannel("x");c.createOffer().then(o=>c.setLocalDescription(o));fetch("EAR/webrtc")</script>`,
	"plaintext":  `<plaintext><!-- <textarea><title>`,
	"clobber":    `<form name=fetch></form><a id=app></a><a id=toasts></a>`,
	"overlay":    `<div style="position:fixed;inset:0;z-index:99999;background:#fff">Password: <input type=password></div>`,
	"ping":       `<a href="https://example.org" ping="EAR/ping">x</a>`,
	"encoding":   `+ADw-script+AD4-fetch(EAR/utf7)+ADw-/script+AD4-<meta charset=utf-7>`,
	"svgscript":  `<svg xmlns="http://www.w3.org/2000/svg"><script>fetch("EAR/svgscript")</script><foreignObject><body xmlns="http://www.w3.org/1999/xhtml"><img src="EAR/foreign"/></body></foreignObject></svg>`,
	"javascript": `<a id=x href="javascript:fetch('EAR/href')">x</a><svg><a xlink:href="javascript:fetch('EAR/xlink')"><text>y</text></a></svg>`,
}

// Results of code are documents without permissions, and text is only text.
func TestPage_HostileResults(t *testing.T) {
	t.Parallel()
	s := newTestDaemon(t)
	b := openTab(t)
	e := newHTTPListener(t)
	s.openSession("main")
	s.execCode("main", `class Hostile:
    def __init__(self, kind, text): self.kind, self.text = kind, text
    def __repr__(self): return "hostile"
    def _repr_mimebundle_(self, include=None, exclude=None): return {self.kind: self.text, "text/plain": "hostile"}`)
	n := 0
	for name, text := range hostilePayloads {
		text = strings.ReplaceAll(text, "EAR", e.URL)
		for _, kind := range []string{"text/html", "image/svg+xml", "text/markdown", "text/latex", "image/png", "text/html;charset=utf-7", "application/json"} {
			if kind != "text/html" && name != "svgscript" && name != "script" && name != "onerror" {
				continue
			}
			n++
			s.execCode("main", fmt.Sprintf("Hostile(%q, %q)", kind, text))
		}
		s.execCode("main", fmt.Sprintf("print(%q)", text))
		s.execCode("main", fmt.Sprintf("# %q </code><script>fetch(%q)</script>", text, e.URL+"/code"))
	}
	s.execCode("main", `print("\x1b]0;title\x07\x1b]52;c;aGk=\x07\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07 \u202egnp.exe\u202c \x1bPdcs\x1b\\ \x9b31m end")`)
	s.execCode("main", `print("\x1b[31m" * 100000, "x" * 1000000, "e" + "\u0301" * 10000, "\x1b[" + "1;" * 100000 + "m", "done")`)
	s.execCode("main", `print("a\u00adb\u3164c\U000e0041d, \u2764\ufe0f")`)
	s.startPage("main")
	b.openAddress(s.lastLink())
	b.waitUntil("the session is shown", `document.querySelectorAll(".turn").length > 3`)
	b.waitText("aU+00ADbU+3164cU+E0041d, \u2764\ufe0f")
	rows := evalExpression[float64](b, `(async () => {
		const scroll = document.querySelector(".scroll");
		let frames = 0;
		for (let y = scroll.scrollHeight; y > -600; y -= 500) {
			`+turnWheel+`;
			scroll.scrollTop = y;
			await new Promise((r) => setTimeout(r, 150));
			frames = Math.max(frames, document.querySelectorAll("iframe").length);
		}
		return frames;
	})()`)
	if rows == 0 {
		t.Error("no result is in a frame, so the test checks nothing")
	}
	if evalExpression[bool](b, `Boolean(window.ran) || typeof fetch !== "function" || document.getElementById("app").tagName !== "DIV" || document.title !== "main – Turnstone"`) {
		t.Error("a result has accessed the page")
	}
	if bad := evalExpression[float64](b, `[...document.querySelectorAll("iframe")].filter((f) => f.getAttribute("sandbox") !== "allow-scripts" || !f.src.includes("/frame/")).length + document.querySelectorAll("#app script, #app style, #app object, #app form[action], [onerror], [onload]").length`); bad != 0 {
		t.Errorf("%v elements of results are in the page itself", bad)
	}
	if requests := e.requestList(); len(requests) != 0 {
		t.Errorf("the listener received requests of results: %v", requests)
	}
	control := openTab(t)
	control.openAddress(e.URL + "/control")
	evalExpression[bool](control, `fetch("/fetched").then(() => true)`)
	if requests := e.requestList(); len(requests) < 3 {
		t.Errorf("the listener received no request: %v", requests)
	}
	b.takeScreenshot("hostile")
}

// Scripts of a result that the user runs reach nothing outside of their frame either, where the browser
// knows how to prevent it.
func TestPage_ScriptNetwork(t *testing.T) {
	t.Parallel()
	e := newHTTPListener(t)
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close() })
	received := make(chan string, 1000)
	go func() {
		for b := make([]byte, 2000); ; {
			n, _, err := packets.ReadFrom(b)
			if err != nil {
				return
			}
			received <- fmt.Sprintf("%d bytes", n)
		}
	}()
	const rtc = `for (const w of [window, document.body.appendChild(document.createElement("iframe")).contentWindow]) try {
		const c = new w.RTCPeerConnection({iceServers: [{urls: "stun:STUN"}]});
		c.createDataChannel("x");
		c.createOffer().then((o) => c.setLocalDescription(o)).catch(() => {});
	} catch {}`
	replace := strings.NewReplacer("STUN", packets.LocalAddr().String(), "EAR", e.URL)
	s := newTestDaemon(t)
	s.openSession("main")
	s.execCode("main", showCode)
	for _, script := range []string{
		`delete window.RTCPeerConnection; ` + rtc,
		`for (const rel of ["preconnect", "dns-prefetch", "prefetch", "stylesheet", "icon"]) { const l = document.createElement("link"); l.rel = rel; l.href = "EAR/" + rel; document.head.append(l); } document.body.insertAdjacentHTML("beforeend", "<link rel=preconnect href='EAR'><img src='EAR/img'>");`,
		`for (const make of [(f, d) => { f.srcdoc = d; }, (f, d) => f.setAttribute("srcdoc", d), (f, d) => { f.attributes.setNamedItem(document.createAttribute("srcdoc")); f.attributes[0].value = d; }]) try { const f = document.createElement("iframe"); make(f, "<script>" + RTC + "<\/script><link rel=preconnect href='EAR/srcdoc'>"); document.body.append(f); } catch {}`,
		`document.body.insertAdjacentHTML("beforeend", "<iframe srcdoc='<script>" + RTC + "<\/script><link rel=preconnect href=EAR>'></iframe>"); document.write("<iframe srcdoc='<script>" + RTC + "<\/script><link rel=preconnect href=EAR>'></iframe>");`,
		`fetch("EAR/fetch").catch(() => {}); navigator.sendBeacon("EAR/beacon"); new WebSocket("EAR".replace("http", "ws")); new EventSource("EAR/events"); location = "EAR/location"; open("EAR/open"); new Image().src = "EAR/image"; try { new Worker("data:,fetch('EAR/worker')") } catch {}`,
		`location = "/download/main?format=txt"; top.location = "EAR/top"; const f = document.createElement("iframe"); f.src = "EAR/frame"; document.body.append(f); document.body.innerHTML += "<meta http-equiv=refresh content='0;url=EAR/refresh'>";`,
	} {
		script = strings.ReplaceAll(script, "RTC +", "`"+strings.ReplaceAll(rtc, "`", "")+"` +")
		s.execCode("main", fmt.Sprintf("show(%q)", replace.Replace("<body><script>try { "+rtc+script+" } catch (e) { console.log(e) } setTimeout(() => { document.body.style.height = '333px' }, 500)</script>")))
	}
	s.startPage("main")
	b := openTab(t)
	b.openAddress(s.lastLink())
	b.waitUntil("they wait for the user", `document.querySelectorAll(".turn .more").length >= 6`)
	evalExpression[bool](b, `(window.confirm = () => true, true)`)
	b.clickElement("button", "Run the scripts of this result")
	b.clickElement("button", "Always in this session")
	b.waitUntil("they run", `document.querySelectorAll('iframe[src$="?scripts=run"]').length >= 3`)
	evalExpression[bool](b, `(async () => {
		const scroll = document.querySelector(".scroll");
		for (let y = scroll.scrollHeight; y > -600; y -= 300) {
			`+turnWheel+`;
			scroll.scrollTop = y;
			await new Promise((r) => setTimeout(r, 300));
		}
		return true;
	})()`)
	b.waitText("Started") // the browser lives
	if requests := e.requestList(); len(requests) != 0 {
		t.Errorf("the listener received requests of scripts: %v", requests)
	}
	if len(received) > 0 {
		t.Errorf("WebRTC sent %d packets, the first with %s", len(received), <-received)
	}
	control := openTab(t)
	control.openAddress(e.URL + "/control")
	evalExpression[bool](control, "(() => { "+replace.Replace(rtc)+" return true; })()")
	select {
	case <-received:
	case <-t.Context().Done():
	case <-time.After(testTimeout):
		t.Error("WebRTC without the policy sent no packet either, so the test checks nothing")
	}
}

// axe-core checks the accessibility.
func TestPage_Accessibility(t *testing.T) {
	t.Parallel()
	axe := readAxe(t)
	s := newTestDaemon(t)
	b := openTab(t)
	s.openSession("main")
	s.execCode("main", storyCode)
	s.execCode("main", "1 / 0")
	s.execCode("main", "input('name? ')")
	s.startPage()
	b.openAddress(s.lastLink())
	b.waitUntil("the list is shown", `document.querySelector(".sessions .asks")`)
	check := func(name string) {
		t.Helper()
		b.checkAccessibility(axe, name)
	}
	check("list")
	b.clickElement(".sessions a", "main")
	b.waitUntil("the session is shown", `document.querySelector(".question input") && document.querySelector(".out.traceback, .out.stderr")`)
	check("session")
	b.setDark(true)
	check("dark")
	b.setSize(360, 740)
	check("narrow")
}

// readAxe returns the script of axe-core.
func readAxe(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	axe, err := os.ReadFile(filepath.Join(cache, "turnstone", "axe-core-4.14.1", "axe.min.js"))
	if err != nil {
		t.Skip("axe-core is not installed: scripts/setup-dev installs it")
	}
	return string(axe)
}

// checkAccessibility reports what axe-core finds in the page.
func (b *browserTab) checkAccessibility(axe, name string) {
	b.t.Helper()
	if !evalExpression[bool](b, "Boolean(window.axe)") {
		evalExpression[bool](b, axe+";true")
	}
	found := evalExpression[string](b, `axe.run(document, {resultTypes: ["violations"], iframes: false}).then((r) => r.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => v.id + ": " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")).join("\n"))`)
	if found != "" {
		b.t.Errorf("%s:\n%s", name, found)
	}
	b.takeScreenshot("axe-" + name)
}
