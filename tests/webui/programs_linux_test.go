package webui

import (
	"testing"
)

// defineReaders defines functions whose child programs read single keys: one prints what it has read,
// the other shows a menu on the alternate screen.
const defineReaders = `import subprocess, sys
def run(body):
    _ = subprocess.run([sys.executable, "-c", """import os, sys, termios, tty
old = termios.tcgetattr(0)
tty.setcbreak(0)
write = lambda text: os.write(1, text.encode())
""" + body + """
termios.tcsetattr(0, termios.TCSADRAIN, old)
"""])

def reader(prompt, end):
    run(f"""
write({prompt!r})
got = b""
while not got.endswith({end!r}): got += os.read(0, 64)
write("got " + got.hex() + chr(10))
""")

def poller():
    run("""
import select
while not select.select([0], [], [], 0.05)[0]: pass
write("polled " + os.read(0, 64).decode() + chr(10))
""")

def form():
    run("""
write("\\x1b[?1049h\\x1b[2J")
for i in range(1, 41): write(f"\\x1b[{i};1Hline {i} " + "=" * 111)
write("\\x1b[40;6H")
os.read(0, 64)
write("\\x1b[?1049l")
""")

def menu():
    run("""
entries, at = ["Zürich", "漢字 <b>two</b>", "three"], 0
write("\\x1b[?1049h\\x1b[?25l")
while True:
    write("\\x1b[2J\\x1b[HChoose a city\\r\\n")
    for i, entry in enumerate(entries):
        write("  " + ("\\x1b[7m" if i == at else "") + entry + "\\x1b[0m\\r\\n")
    key = os.read(0, 64)
    if key == b"\\x1b[B": at = min(at + 1, 2)
    if key in (b"\\r", b"\\n"): break
write("\\x1b[?25h\\x1b[?1049l")
write("chosen: " + entries[at] + chr(10))
""")`

// openPrograms opens a page with a session that has defined the readers.
func openPrograms(t *testing.T) (*testDaemon, *browserTab) {
	t.Helper()
	s, b := openMain(t, defineReaders)
	b.waitText("def reader")
	return s, b
}

const (
	keysShown   = `document.querySelector("#keys").checkVisibility()`
	keysFocused = `document.activeElement.id === "keys"`
)

func TestPage_Programs(t *testing.T) {
	t.Parallel()

	t.Run("types keys and lines for a program that reads keys", func(t *testing.T) {
		t.Parallel()
		_, b := openPrograms(t)
		b.runCode("reader('pick one: ', b'B')\nreader('pick two: ', b'k')\npoller()")
		b.waitUntil("the program reads keys", keysFocused+` && document.querySelector(".question:not([hidden])").innerText.includes("reads single keys") && document.querySelector(".question:not([hidden])").innerText.includes("pick one:")`)
		b.takeScreenshot("keys-light")
		b.insertText("<Nonsense>")
		b.pressKeys("\r")
		b.waitText("<Nonsense>")
		b.waitUntil("the error is shown, and the keys are back", `document.querySelector(".toast.bad")?.innerText.includes("Nonsense") && document.querySelector("#keys").value === "<Nonsense>"`)
		evalExpression[bool](b, `(document.querySelector("#keys").select(), true)`)
		b.insertText("<Down>")
		b.pressKeys("\r")
		b.waitText("got 1b5b42")
		b.waitUntil("the keys are marked as keys", `[...document.querySelectorAll(".typed.keys")].some((k) => k.textContent === "keys <Down>" && k.title === "keys typed by ada")`)
		b.waitUntil("the next program reads keys", keysFocused+` && document.querySelector(".question:not([hidden])").innerText.includes("pick two:")`)
		b.clickElement("button[aria-pressed=true]", "Keys")
		b.waitUntil("a line can be typed instead", `document.activeElement.id === "answer" && !`+keysShown)
		b.insertText("k")
		b.pressKeys("\r")
		b.waitText("got 6b")
		b.waitUntil("the page says that the program polls", `document.querySelector(".question:not([hidden])")?.innerText.includes("it may continue by itself")`)
		b.insertText("p")
		b.pressKeys("\r")
		b.waitText("polled p")
		b.waitUntil("the turn has ended", `document.querySelector(".dot.idle") && document.activeElement.tagName === "TEXTAREA"`)
		b.waitUntil("only code can be typed", `!`+keysShown+` && ![...document.querySelectorAll("[aria-pressed]")].some((k) => k.checkVisibility())`)
	})

	t.Run("hides keys that are a secret", func(t *testing.T) {
		t.Parallel()
		_, b := openPrograms(t)
		b.runCode(`reader('Password: ', b'\n')`)
		b.waitUntil("it asks for a line that is a secret", `document.activeElement.id === "answer" && document.activeElement.type === "password"`)
		b.clickElement("button[aria-pressed=false]", "Keys")
		b.waitUntil("keys are a secret too", keysFocused+` && document.activeElement.type === "password"`)
		b.insertText("tops3cret<Enter>")
		b.pressKeys("\r")
		b.waitText("got 746f70733363726574")
		b.waitUntil("the keys are dots", `[...document.querySelectorAll(".typed.keys")].some((k) => k.textContent === "keys ••••••")`)
		b.waitUntil("the turn has ended", `document.querySelector(".dot.idle")`)
		if evalExpression[bool](b, `document.documentElement.outerHTML.includes("tops3cret") || [...document.querySelectorAll("input, textarea")].some((f) => f.value.includes("tops3cret"))`) {
			t.Error("the secret is still in the document")
		}
	})

	t.Run("types keys while code runs", func(t *testing.T) {
		t.Parallel()
		_, b := openPrograms(t)
		b.runCode("import threading; threading.Event().wait()")
		b.waitUntil("it runs", `document.querySelector(".dot.running")`)
		b.clickElement(".write button", "Keys")
		b.waitUntil("keys can be typed", keysFocused)
		b.insertText("early")
		b.pressKeys("\r")
		b.waitUntil("they are recorded", `document.querySelector(".typed.keys")?.textContent === "keys early"`)
		b.clickElement("button", "Interrupt")
		b.waitUntil("the turn has ended", `document.querySelector(".dot.idle") && !`+keysShown)
		b.waitText("5 bytes")
	})

	t.Run("shows the screen of a full-screen program", func(t *testing.T) {
		t.Parallel()
		_, b := openPrograms(t)
		const screen = `document.querySelector(".screen:not([hidden])")`
		b.runCode("menu()")
		b.waitUntil("the screen is shown as text", screen+`?.querySelector("pre").textContent.startsWith("Choose a city\n  Zürich\n  漢字 <b>two</b>\n") && `+screen+`.querySelector("mark").textContent === "Zürich"`)
		b.waitUntil("the program reads keys", keysFocused)
		b.insertText("<Down>")
		b.pressKeys("\r")
		b.waitUntil("the highlight has moved", screen+`?.querySelector("mark")?.textContent === "漢字 <b>two</b>"`)
		b.takeScreenshot("screen-light")
		b.setDark(true)
		b.takeScreenshot("screen-dark")
		b.setSize(360, 740)
		b.waitUntil("nothing is wider than the window", `document.documentElement.scrollWidth <= 360`)
		b.takeScreenshot("screen-360")
		b.insertText("<Enter>")
		b.pressKeys("\r")
		b.waitText("chosen: 漢字 <b>two</b>")
		b.waitUntil("the screen is gone", `document.querySelector(".dot.idle") && !`+screen)
		b.setSize(1100, 800)
		b.setDark(false)
		b.runCode("form()")
		b.waitUntil("the line of the cursor is in view", screen+`?.innerText.includes("cursor at line 40, column 6") && `+screen+`.querySelector("pre").scrollTop > 0`)
		b.waitUntil("the program reads keys", keysFocused)
		b.takeScreenshot("screen-full")
		b.insertText("q")
		b.pressKeys("\r")
		b.waitUntil("the screen is gone again", `document.querySelector(".dot.idle") && !`+screen)
	})
}
