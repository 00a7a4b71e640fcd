//go:build unix

package webui

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// bombScript requests more resources than a browser has. Its drawing has 10^10 uses of a shape,
// nested markers and a filter. Its images have more pixels than memory, one small enough to come
// with its event and one not.
const bombScript = `import zlib, struct
head = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="400" height="200">'
def nested(element, use):
    made = head + '<%s id="a0"><path d="M0 0h1"/></%s>' % (element, element)
    for i in range(1, 11):
        made += '<%s id="a%d">%s</%s>' % (element, i, use % (i - 1) * 10, element)
    return made + use % 10 + '</svg>'
def png(side, level):
    chunk = lambda kind, data: struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    z = zlib.compressobj(level)
    data = b''.join(z.compress(bytes(3 * side + 1)) for _ in range(side)) + z.flush()
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', side, side, 8, 2, 0, 0, 0)) + chunk(b'IDAT', data) + chunk(b'IEND', b'')
small, large = png(7000, 9), png(12000, 1)
assert len(small) < 256 << 10 < len(large)
for svg in (nested('g', '<use xlink:href="#a%d" x="1"/>'), nested('marker', '<path d="M0 0h1h1h1" marker-mid="url(#a%d)"/>'),
            head + '<filter id="f" width="999" height="999">' + '<feTurbulence baseFrequency=".01" numOctaves="99999"/>' * 50 + '</filter><rect width="400" height="200" filter="url(#f)"/></svg>',
            head.replace('400', '1e9') + '</svg>', head + '<g>' * 100000):
    display({'image/svg+xml': svg}, raw=True)
display({'image/png': small}, raw=True)
display({'image/png': large}, raw=True)`

func TestHugeOutput(t *testing.T) {
	t.Parallel()

	t.Run("keeps the page usable next to decompression bombs", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openSession("main")
		s.execCode("main", bombScript)
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitUntil("the drawings have placeholders", `document.querySelectorAll(".framed").length === 5`)
		for i := range 5 {
			evalExpression[bool](b, fmt.Sprintf(`(`+turnWheel+`, document.querySelectorAll(".framed")[%d].scrollIntoView(), true)`, i))
			b.waitUntil("a visible drawing is in a frame", fmt.Sprintf(`document.querySelectorAll(".framed")[%d].querySelector("iframe")`, i))
		}
		b.waitText("An image of 7000 × 7000 pixels is too large to show.")
		b.waitText("This image cannot be shown")
		b.typeInto("textarea", "40 + 2")
		b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
		b.waitUntil("the page runs code", `[...document.querySelectorAll(".turn")].some((t) => t.innerText.includes("ada") && t.innerText.includes("42"))`)
		b.takeScreenshot("bombs")
	})

	t.Run("shows the last state of a storm of results", func(t *testing.T) {
		t.Parallel()
		s := newTestDaemon(t)
		b := openTab(t)
		s.openSession("main")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitText("Started")
		s.execCode("main", `for i in range(10000): display({'text/html': f'<b>{i}</b>'}, raw=True)
print('shown')`)
		b.waitText("shown")
		b.waitUntil("the last ones are in frames", `document.querySelector("iframe")`)
		if n := evalExpression[float64](b, `document.querySelectorAll("iframe").length`); n > 100 {
			t.Errorf("%v results are in frames, although few are visible and each costs as much as a page", n)
		}
		s.execCode("main", `bar = display('step 0', display_id='bar')
for i in range(10000): bar.update({'text/markdown': f'step {i + 1}'}, raw=True)
print('updated')`)
		b.waitText("updated")
		b.waitUntil("an update has replaced all earlier ones", `document.querySelectorAll('[data-display="bar"]').length === 1 && document.querySelector('[data-display="bar"]').innerText.includes("step 10000")`)
		if n := evalExpression[float64](b, `document.querySelectorAll("*").length`); n > 20_000 {
			t.Errorf("the document has %v elements", n)
		}
		evalExpression[bool](b, `(location.reload(), true)`)
		b.waitText("updated")
		b.waitUntil("the same after a reload", `document.querySelector('[data-display="bar"]')?.innerText.includes("step 10000")`)
		s.execCode("main", "print('and on')")
		b.waitText("and on")
		b.takeScreenshot("storms")
	})
}
