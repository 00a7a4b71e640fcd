//go:build unix

package webui

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/turnstone-repl/turnstone/client/protocol"
)

// openTableSession opens a session whose Python has pandas or polars, and a tab that shows it.
func openTableSession(t *testing.T, imports string) (*testDaemon, *browserTab) {
	t.Helper()
	s := newTestDaemon(t)
	b := openTab(t)
	python := "/usr/bin/python3" // for which scripts/setup-dev installs pandas
	if cache, err := os.UserCacheDir(); err == nil {
		path := filepath.Join(cache, "turnstone", "results", "bin", "python3")
		if _, err := os.Stat(path); err == nil {
			python = path
		}
	}
	if _, err := s.dialDaemon().CreateSession(t.Context(), protocol.CreateParams{Name: "main", Runtime: python}); err != nil {
		t.Fatal(err)
	}
	if reply := s.execCode("main", imports); strings.Contains(reply.Text(), "Error") {
		t.Skipf("%s cannot run %q: scripts/setup-dev installs the package", python, imports)
	}
	return s, b
}

// waitRows waits until the table says which rows it shows.
func (b *browserTab) waitRows(text string) {
	b.t.Helper()
	b.waitTable("the table shows "+text, fmt.Sprintf(`document.querySelector(".datatable .rows")?.textContent.includes(%q)`, text))
}

// waitTable waits until an expression is true and the table waits for nothing. On a busy machine a
// session may need more than the second that it has to answer.
func (b *browserTab) waitTable(what, expression string) {
	b.t.Helper()
	b.waitUntil(what, `(document.querySelector(".datatable .more")?.click(), !document.querySelector("[aria-busy]")) && `+expression)
}

// cellTexts returns the cells of a column, at most five.
func (b *browserTab) cellTexts(column int) string {
	b.t.Helper()
	return evalExpression[string](b, fmt.Sprintf(`[...document.querySelectorAll(".datatable tbody tr")].slice(0, 5).map((row) => row.querySelectorAll("td")[%d].textContent).join(" ")`, column))
}

const millionRows = `n = 10 ** 6
f = pd.DataFrame({"number": range(n), "name": ["row %d" % i for i in range(n)], "share": [i % 997 / 7 for i in range(n)], "group": pd.Categorical.from_codes([i % 3 for i in range(n)], ["low", "middle", "high"]), "when": pd.date_range("2024-01-01", periods=n, freq="min", tz="Europe/Berlin")})
f`

func TestTables(t *testing.T) {
	t.Parallel()

	t.Run("pages, sorts and searches a million rows", func(t *testing.T) {
		t.Parallel()
		s, b := openTableSession(t, "import pandas as pd")
		s.execCode("main", millionRows)
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitRows("rows 1–50 of 1,000,000, 5 columns")
		b.takeScreenshot("table-light")
		b.setDark(true)
		b.takeScreenshot("table-dark")
		b.clickElement(".datatable .bar button", "›")
		b.waitRows("rows 51–100 of 1,000,000")
		if got := b.cellTexts(0); got != "50 51 52 53 54" {
			t.Errorf("the second page has %s", got)
		}
		b.clickElement(".datatable .bar button", "»")
		b.waitRows("rows 999,951–1,000,000")
		b.clickElement(".datatable th button", "number")
		b.waitRows("rows 1–50")
		evalExpression[bool](b, `(document.querySelector(".datatable th button").focus(), true)`)
		b.pressKeys("\r") // once more, with the keyboard
		b.waitTable("the rows are sorted", `document.querySelector(".datatable th").getAttribute("aria-sort") === "descending"`)
		if got := b.cellTexts(0); got != "999999 999998 999997 999996 999995" {
			t.Errorf("sorted, the first rows are %s", got)
		}
		b.typeInto(".datatable input", "ROW 77777")
		b.waitRows("rows 1–11 of 11 found in 1,000,000")
		if got := b.cellTexts(1); got != "row 777779 row 777778 row 777777 row 777776 row 777775" {
			t.Errorf("found %s", got)
		}
		b.takeScreenshot("table-found-dark")
		b.setDark(false)
		if n := evalExpression[float64](b, `document.querySelectorAll("*").length`); n > 1500 {
			t.Errorf("the document has %v elements", n)
		}
		b.setSize(360, 740)
		b.waitUntil("nothing is wider than the window", `document.documentElement.scrollWidth <= 360`)
		b.takeScreenshot("table-360")
	})

	t.Run("waits while code runs, and keeps the first rows without a worker", func(t *testing.T) {
		t.Parallel()
		s, b := openTableSession(t, "import pandas as pd")
		s.execCode("main", "f = pd.DataFrame({'n': range(200)}); f")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitRows("rows 1–50 of 200")
		b.typeInto("textarea", "while True: pass")
		b.pressKeys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
		b.waitUntil("it runs", `document.querySelector(".dot.running")`)
		b.clickElement(".datatable .bar button", "›")
		b.waitText("The rows come when the session is idle.")
		b.takeScreenshot("table-busy")
		b.pressKeys("c", chromedp.KeyModifiers(chromedp.ModifierCtrl))
		b.waitRows("rows 51–100 of 200")
		s.execCode("main", "f.insert(0, 'other', 1)")
		b.clickElement(".datatable .bar button", "«")
		b.waitText("no longer in the session")
		s.execCode("main", "del f['other']; f['n'] = 7")
		b.clickElement(".datatable th button", "n")
		b.waitText("The table has changed since it was shown.")
		if got := b.cellTexts(0); got != "7 7 7 7 7" {
			t.Errorf("the changed rows are %s", got)
		}
		s.execCode("main", "import os; os._exit(1)")
		s.execCode("main", "import pandas as pd; g = pd.DataFrame({'n': range(200)}); g; 1")
		b.clickElement(".datatable .bar button", "›")
		b.waitText("These are its first rows.")
		b.waitRows("rows 1–50 of 200")
		if got := b.cellTexts(0); got != "0 1 2 3 4" {
			t.Errorf("the first rows are %s", got)
		}
	})

	t.Run("sorts and searches a small table by itself", func(t *testing.T) {
		t.Parallel()
		s, b := openTableSession(t, "import pandas as pd")
		s.execCode("main", "pd.DataFrame({'n': [10.5, None, 9, -1] * 4, 's': ['b', 'a', None, 'c'] * 4})")
		s.execCode("main", "del _\nimport gc; _ = gc.collect()\nwhile True: input()")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitRows("rows 1–16 of 16, 2 columns")
		b.clickElement(".datatable th button", "n")
		b.waitUntil("it is sorted", `document.querySelector("[aria-sort=ascending]")`)
		if got := b.cellTexts(0); got != "-1.0 -1.0 -1.0 -1.0 9.0" {
			t.Errorf("the rows are %s", got)
		}
		b.typeInto(".datatable input", "A")
		b.waitRows("rows 1–4 of 4 found in 16")
	})

	t.Run("shows hostile names and cells as text and copies them as CSV", func(t *testing.T) {
		t.Parallel()
		s, b := openTableSession(t, "import pandas as pd")
		e := newHTTPListener(t)
		s.execCode("main", fmt.Sprintf(`evil = "<img src='%s/cell' onerror='document.title=1'>"
f = pd.DataFrame([[evil, "a\u202eb", 'say "hi", you\nthere', "x" * 500], [1, None, " lead", "=1+1"]], columns=[evil, evil, "c,d", ("t", 1)], index=[evil, "<b>"])
f`, e.URL))
		for _, bad := range []string{`'{"v":1}'`, `'{"v":1,"columns":[],"rows":[[]],"total":[0,0]}'`, `'nothing'`, `'{"v":1,"columns":[{"name":"a"}],"rows":[["1","2"]],"total":[1,1]}'`} {
			s.execCode("main", "display({'application/vnd.turnstone.table+json': "+bad+", 'text/html': '<p>as html'}, raw=True)")
		}
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitRows("rows 1–2 of 2, 4 columns")
		b.takeScreenshot("table-hostile")
		if n := evalExpression[float64](b, `document.querySelectorAll(".datatable").length`); n != 1 {
			t.Errorf("%v tables are shown, want 1: the others are not valid", n)
		}
		if bad := evalExpression[float64](b, `document.querySelectorAll(".datatable img, .datatable b, .datatable script").length`); bad != 0 || len(e.requestList()) > 0 {
			t.Errorf("%v elements of cells are in the page; it requested %v", bad, e.requestList())
		}
		b.waitText("U+202E")
		evalExpression[bool](b, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
		b.clickElement(".datatable button", "Copy as CSV")
		evil := "<img src='" + e.URL + "/cell' onerror='document.title=1'>"
		want := "," + evil + "," + evil + `,"c,d","('t', 1)"` + "\r\n" +
			evil + "," + evil + ",a\u202eb,\"say \"\"hi\"\", you\nthere\"," + strings.Repeat("x", 200) + "…\r\n" +
			"<b>,1,None,\" lead\",=1+1\r\n"
		b.waitUntil("it is copied", `window.copied !== undefined`)
		if got := evalExpression[string](b, `window.copied`); got != want {
			t.Errorf("copied %q, want %q", got, want)
		}
		b.waitText("with 1 text cut.")
	})

	// A column of 17 digits cannot be read at a glance.
	t.Run("rounds numbers as pandas does, and copies them whole", func(t *testing.T) {
		t.Parallel()
		s, b := openTableSession(t, "import pandas as pd")
		s.execCode("main", "pd.DataFrame({'a': [2 / 3, -100, float('nan')], 'b': [1.5, 2.25, 3], 'small': [2 / 3, 1.2345678912e-9, 0], 'n': [10 ** 15, 2, 3]})")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitRows("rows 1–3 of 3, 4 columns")
		for column, want := range []string{"0.666667 -100.000000 NaN", "1.50 2.25 3.00", "0.6666667 1.234568e-9 0.000000", "1000000000000000 2 3"} {
			if got := b.cellTexts(column); got != want {
				t.Errorf("column %d shows %s, want %s", column, got, want)
			}
		}
		if got := evalExpression[string](b, `document.querySelector(".datatable tbody td").title`); got != "0.6666666666666666" {
			t.Errorf("the tooltip of the first cell is %q", got)
		}
		evalExpression[bool](b, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
		b.clickElement(".datatable button", "Copy as CSV")
		b.waitUntil("the numbers are copied whole", `window.copied?.includes("0,0.6666666666666666,1.5,")`)
	})

	t.Run("pages through data frames and matrices of R", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("R"); err != nil {
			t.Skip("R is not installed: scripts/setup-dev installs it")
		}
		s := newTestDaemon(t)
		b := openTab(t)
		if _, err := s.dialDaemon().CreateSession(t.Context(), protocol.CreateParams{Name: "main", Language: "r"}); err != nil {
			t.Fatal(err)
		}
		s.execCode("main", "f <- data.frame(n = 1e6:1, s = paste('row', 1:1e6), d = as.Date('2024-01-01') + 0:999); f")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitRows("rows 1–50 of 1,000,000, 3 columns")
		if n := evalExpression[float64](b, `document.querySelectorAll(".flow > .result").length`); n != 0 {
			t.Errorf("%v parts of its text are shown, too", n)
		}
		b.clickElement(".datatable th button", "n")
		b.waitTable("it is sorted", `document.querySelector("[aria-sort=ascending]")`)
		if got := b.cellTexts(1); got != "row 1000000 row 999999 row 999998 row 999997 row 999996" {
			t.Errorf("sorted, the first rows are %s", got)
		}
		b.takeScreenshot("table-r")
		s.execCode("main", "rm(f); 5")
		b.clickElement(".datatable .bar button", "›")
		b.waitTable("the table says that it is gone", `document.body.innerText.includes("no longer in the session")`)
		s.execCode("main", "matrix(runif(300), 100)")
		b.waitUntil("the matrix is shown", `[...document.querySelectorAll(".datatable .rows")].at(-1)?.textContent.includes("of 100, 3 columns")`)
	})

	t.Run("shows wide, empty and polars tables", func(t *testing.T) {
		t.Parallel()
		s, b := openTableSession(t, "import pandas as pd, polars as pl")
		s.execCode("main", "pd.DataFrame([[i * j for i in range(120)] for j in range(30)])")
		s.startPage("main")
		b.openAddress(s.lastLink())
		b.waitRows("rows 1–30 of 30, first 50 of 120 columns")
		evalExpression[bool](b, `(document.querySelector(".datatable .cells").scrollTo(300, 200), true)`)
		b.takeScreenshot("table-wide")
		s.execCode("main", "pd.DataFrame()")
		b.waitText("no rows, 0 columns")
		s.execCode("main", "pl.DataFrame({'a': range(500), 'l': [[i] for i in range(500)]})")
		b.waitUntil("the table of polars is shown", `[...document.querySelectorAll(".datatable .rows")].at(-1)?.textContent.includes("of 500, 2 columns")`)
		b.takeScreenshot("table-polars")
		axe := readAxe(t)
		b.checkAccessibility(axe, "tables")
		b.setDark(true)
		b.checkAccessibility(axe, "tables-dark")
	})
}
