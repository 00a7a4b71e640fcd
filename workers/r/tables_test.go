//go:build linux || darwin

package r_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// showTable runs code and returns the table that it shows, or nil.
func showTable(t *testing.T, w *worker, code string) *session.Table {
	t.Helper()
	r := w.RunCode(code)
	if r.Idle.Outcome != ipc.OutcomeOK {
		t.Fatalf("%s: %+v", code, r.Idle)
	}
	var table *session.Table
	for _, e := range r.Events {
		if d, ok := e.(ipc.Display); ok && d.Data[timeline.MIMETable] != nil {
			table = decodeTable(t, d.Data)
		}
	}
	return table
}

func decodeTable(t *testing.T, data map[string][]byte) *session.Table {
	t.Helper()
	table, err := session.DecodeTable(data[timeline.MIMETable])
	if err != nil {
		t.Fatalf("%v: %.500s", err, data[timeline.MIMETable])
	}
	return table
}

// queryTable asks for rows; it returns nil if the table is gone.
func queryTable(t *testing.T, w *worker, q session.TableQuery) *session.Table {
	t.Helper()
	if q.Count == 0 {
		q.Count = 50
	}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	answer := runQuery(t, w, ipc.QueryTable, string(text))
	if answer.Status != ipc.StatusOK {
		t.Fatalf("%s: got %+v", text, answer)
	}
	if len(answer.Data) == 0 {
		return nil
	}
	return decodeTable(t, answer.Data)
}

// describeTable returns the columns, rows and size of a table in one line.
func describeTable(t *session.Table) string {
	if t == nil {
		return "no table"
	}
	var columns, rows []string
	for _, c := range t.Columns {
		columns = append(columns, strings.TrimRight(c.Name+" "+c.Type+" "+c.Align, " "))
	}
	for i, row := range t.Rows {
		rows = append(rows, t.Index[i]+": "+strings.Join(row, "|"))
	}
	return fmt.Sprintf("%s | %s | %d %d", strings.Join(columns, "; "), strings.Join(rows, "; "), t.Total[0], t.Total[1])
}

func TestTablePages(t *testing.T) {
	t.Parallel()

	t.Run("shows the cells of data frames and matrices as text", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for code, want := range map[string]string{
			`data.frame(a = 1:2, b = c("x", NA))`:                                         "a integer right; b character | 1: 1|x; 2: 2|NA | 2 2",
			`data.frame(f = c(0.1, NaN, NA, 1e300), row.names = letters[1:4])`:            "f double right | a: 0.1; b: NaN; c: NA; d: 1e+300 | 4 1",
			`setNames(data.frame(1, 2, 3), c("d", "d", NA))`:                              "d double right; d double right; NA double right | 1: 1|2|3 | 1 3",
			`data.frame(t = as.POSIXct("2024-03-01 12:00", tz = "Europe/Berlin"))`:        "t POSIXct | 1: 2024-03-01 12:00:00 CET | 1 1",
			`data.frame(d = as.Date(c("2024-03-01", NA)), f = factor(c("x", "y")))`:       "d Date; f factor | 1: 2024-03-01|x; 2: NA|y | 2 2",
			`data.frame(l = I(list(1:3, "x", NULL)))`:                                     "l AsIs | 1: integer 3; 2: character 1; 3: NULL | 3 1",
			`data.frame(m = I(matrix(1:4, 2)))`:                                           "m AsIs | 1: 1 3; 2: 2 4 | 2 1",
			`setNames(data.frame("<script>alert(1)</script>\t\"\\\001\xff"), "<b>&amp;")`: "<b>&amp; character | 1: <script>alert(1)</script>\t\"\\\x01<ff> | 1 1",
			`data.frame()`:                " |  | 0 0",
			`data.frame(row.names = 1:2)`: " | 1: ; 2:  | 2 0",
			`data.frame(a = integer())`:   "a integer right |  | 0 1",
			`matrix(1:4, 2)`:              "[,1] integer right; [,2] integer right | [1,]: 1|3; [2,]: 2|4 | 2 2",
			`matrix(c("a", "b"), 1, dimnames = list("r", c("A", "B")))`: "A character; B character | r: a|b | 1 2",
			`table(c(1, 1))`:         "no table",
			`array(1:8, c(2, 2, 2))`: "no table",
			`if (requireNamespace("tibble", quietly = TRUE)) tibble::tibble(a = 1) else data.frame(a = 1)`: "a double right | 1: 1 | 1 1",
		} {
			if got := describeTable(showTable(t, w, code)); got != want {
				t.Errorf("%s:\ngot  %q\nwant %q", code, got, want)
			}
		}
	})

	t.Run("cuts large texts and tables visibly", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		table := showTable(t, w, `data.frame(s = c(strrep("\u00e9", 1e5), "x"))`)
		if table.Cut != 1 || table.Rows[0][0] != strings.Repeat("é", 200)+"…" {
			t.Errorf("got %d cut, %q", table.Cut, table.Rows)
		}
		wide := showTable(t, w, `wide <- as.data.frame(matrix(strrep("\001", 300), 60, 120)); wide`)
		if len(wide.Columns) != 50 || wide.Total[1] != 120 || len(wide.Rows) == 0 || len(wide.Rows) >= 50 {
			t.Errorf("got %d columns of %d, %d rows", len(wide.Columns), wide.Total[1], len(wide.Rows))
		}
		if rest := queryTable(t, w, session.TableQuery{Handle: wide.Handle, Count: 1000}); rest == nil || len(rest.Rows) <= len(wide.Rows) {
			t.Errorf("got %+v", rest)
		}
	})

	t.Run("pages, sorts and searches a data frame", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		table := showTable(t, w, `f <- data.frame(n = c(10, 9, NA, 100), s = c("b", "A", NA, "a.c"), d = as.Date(c("2024-01-31", "2024-02-01", NA, "2025-01-01")),
  c = factor(c("lo", "hi", "hi", NA), levels = c("lo", "hi")), l = I(list(1, 2, 3, 4)), t = c(TRUE, FALSE, TRUE, TRUE), row.names = c("p", "q", "r", "s"))
f`)
		sort := func(column int, descending bool) session.TableQuery {
			return session.TableQuery{Handle: table.Handle, Sort: &session.TableSort{Column: column, Descending: descending}}
		}
		find := func(text string) session.TableQuery { return session.TableQuery{Handle: table.Handle, Find: text} }
		both := find("hi")
		both.Sort = &session.TableSort{Column: 0}
		for i, c := range []struct {
			query session.TableQuery
			want  string
		}{
			{sort(0, false), "qpsr"}, {sort(0, true), "spqr"}, {sort(1, false), "qspr"}, {sort(1, true), "psqr"},
			{sort(2, true), "sqpr"}, {sort(3, false), "pqrs"}, {sort(3, true), "qrps"}, {sort(5, true), "prsq"},
			{find("A"), "qs"}, {find("."), "s"}, {find("10"), "p"}, {find("HI"), "qr"}, {find("2024"), "pq"}, {find("2024-02"), "q"}, {find("2024-01-31"), "p"}, {find("false"), "q"},
			{find("nothing"), ""}, {find(`"\E/é` + "\n"), ""},
			{both, "qr"}, {session.TableQuery{Handle: table.Handle, From: 2, Count: 1}, "r"}, {session.TableQuery{Handle: table.Handle, From: 9}, ""},
		} {
			got := queryTable(t, w, c.query)
			if got == nil || strings.Join(got.Index, "") != c.want || strings.Contains(got.Note, "sorted") || got.Changed {
				t.Errorf("%d, %+v: got %+v, want %q", i, c.query, got, c.want)
			}
		}
		if got := queryTable(t, w, sort(4, false)); got.Note == "" || !got.Unsorted || strings.Join(got.Index, "") != "pqrs" {
			t.Errorf("a column of a list: got %q, %q", got.Index, got.Note)
		}
		if got := queryTable(t, w, find("A")); !strings.Contains(got.Note, "1 column of other types was not searched") {
			t.Errorf("got %q", got.Note)
		}
	})

	// A value is there as long as a variable or .Last.value has it.
	t.Run("says that a table is gone", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		unnamed := showTable(t, w, "data.frame(a = 1:3)")
		if got := queryTable(t, w, session.TableQuery{Handle: unnamed.Handle}); got == nil || len(got.Rows) != 3 {
			t.Errorf("the last value: got %+v", got)
		}
		w.RunCode("5")
		w.RunCode("invisible(gc())")
		if got := queryTable(t, w, session.TableQuery{Handle: unnamed.Handle}); got != nil {
			t.Errorf("a value that is gone: got %+v", got)
		}
		named := showTable(t, w, "f <- data.frame(a = 1:3); f")
		w.RunCode("g <- f; rm(f); makeActiveBinding('active', function() stop('evaluated'), globalenv()); 5")
		if got := queryTable(t, w, session.TableQuery{Handle: named.Handle}); got == nil || got.Changed {
			t.Errorf("under another name: got %+v", got)
		}
		w.RunCode("g$a <- 4L; 5")
		if got := queryTable(t, w, session.TableQuery{Handle: named.Handle}); got != nil {
			t.Errorf("a changed value: got %+v", got)
		}
		if other := startWorker(t, workerSetup{}); showTable(t, other, "data.frame(a = 1)").Handle == unnamed.Handle {
			t.Error("two workers use the same handle")
		}
	})

	t.Run("shows a million rows at once", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		table := showTable(t, w, `f <- data.frame(n = 1e6:1, s = paste("name", 1:1e6)); f`)
		if len(table.Rows) != 50 || table.Total[0] != 1000000 {
			t.Fatalf("got %d rows of %v", len(table.Rows), table.Total)
		}
		got := queryTable(t, w, session.TableQuery{Handle: table.Handle, Count: 1, Sort: &session.TableSort{Column: 0}})
		if got.Rows[0][1] != "name 1000000" || got.Index[0] != "1000000" {
			t.Errorf("got %+v", got)
		}
		got = queryTable(t, w, session.TableQuery{Handle: table.Handle, Count: 1, From: 1, Find: "name 77777"})
		if got.Matched != 11 || got.Rows[0][1] != "name 777770" {
			t.Errorf("got %+v", got)
		}
	})
}
