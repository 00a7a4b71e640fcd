//go:build linux || darwin

package python_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// startTableWorker starts a worker that has imported pandas as pd, or polars as pl.
func startTableWorker(t *testing.T, imports string) *worker {
	t.Helper()
	s := workerSetup{python: displayPython()}
	w := startWorker(t, s)
	if w.RunCode(imports).Idle.Outcome != ipc.OutcomeOK {
		t.Skipf("%s cannot run %q: scripts/setup-dev installs the package", s.python, imports)
	}
	return w
}

// showTable runs code and returns the table that it shows, or nil.
func (w *worker) showTable(code string) *session.Table {
	w.t.Helper()
	r := w.RunCode(code)
	if r.Idle.Outcome != ipc.OutcomeOK {
		w.t.Fatalf("%s: %+v", code, r.Idle)
	}
	var table *session.Table
	for _, e := range r.Events {
		if d, ok := e.(ipc.Display); ok && d.Data[timeline.MIMETable] != nil {
			table = w.decodeTable(d.Data)
		}
	}
	return table
}

func (w *worker) decodeTable(data map[string][]byte) *session.Table {
	w.t.Helper()
	table, err := session.DecodeTable(data[timeline.MIMETable])
	if err != nil {
		w.t.Fatalf("%v: %.500s", err, data[timeline.MIMETable])
	}
	return table
}

// queryTable asks for rows; it returns nil if the table is gone.
func (w *worker) queryTable(q session.TableQuery) *session.Table {
	w.t.Helper()
	if q.Count == 0 {
		q.Count = 50
	}
	text, err := json.Marshal(q)
	if err != nil {
		w.t.Fatal(err)
	}
	w.SendMessage(ipc.Query{ID: 1, Kind: ipc.QueryTable, Text: string(text)})
	answer, ok := w.NextEvent().(ipc.QueryResult)
	if !ok || answer.Status != ipc.StatusOK {
		w.t.Fatalf("%s: got %+v", text, answer)
	}
	if len(answer.Data) == 0 {
		return nil
	}
	return w.decodeTable(answer.Data)
}

// wantRows compares the rows of a table with texts, in which "|" separates cells.
func wantRows(t *testing.T, table *session.Table, want ...string) {
	t.Helper()
	if table == nil {
		t.Fatalf("there is no table, want %q", want)
	}
	var got []string
	for _, row := range table.Rows {
		got = append(got, strings.Join(row, "|"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()

	t.Run("shows the cells of pandas as text", func(t *testing.T) {
		t.Parallel()
		w := startTableWorker(t, "import pandas as pd, numpy as np")
		for code, want := range map[string]string{
			"pd.DataFrame({'a': [1, 2], 'b': ['x', None]})":                                            "a int64 right; b object | 0: 1|x; 1: 2|None | 2 2",
			"pd.DataFrame({'f': [0.1, np.nan]}, index=['p', 'q'])":                                     "f float64 right | p: 0.1; q: NaN | 2 1",
			"pd.DataFrame([[1, 2]], columns=['d', 'd'])":                                               "d int64 right; d int64 right | 0: 1|2 | 1 2",
			"pd.DataFrame([[1, 2]], columns=[7, ('t', None)])":                                         "7 int64 right; ('t', None) int64 right | 0: 1|2 | 1 2",
			"pd.DataFrame({'t': [pd.Timestamp('2024-03-01 12:00', tz='Europe/Berlin'), pd.NaT]})":      "t datetime64[ns, Europe/Berlin] | 0: 2024-03-01 12:00:00+01:00; 1: NaT | 2 1",
			"pd.DataFrame({'c': pd.Categorical(['x', 'y']), 'n': pd.array([1, None], dtype='Int64')})": "c category; n Int64 right | 0: x|1; 1: y|<NA> | 2 2",
			"pd.DataFrame({'l': [[1, [2]], {'k': (1,)}]})":                                             "l object | 0: [1, [2]]; 1: {'k': (1,)} | 2 1",
			"pd.DataFrame({'h': ['<script>alert(1)</script>']}).rename(columns={'h': '<b>&amp;'})":     "<b>&amp; object | 0: <script>alert(1)</script> | 1 1",
			"pd.DataFrame({'f': np.array([.1], dtype='f4')})":                                          "f float32 right | 0: 0.1 | 1 1",
			"pd.DataFrame()":                        " |  | 0 0",
			"pd.DataFrame(index=range(2))":          " | 0: ; 1:  | 2 0",
			"pd.DataFrame({'a': []}, dtype=object)": "a object |  | 0 1",
			"pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([('a', 'x'), ('a', 1)]), index=pd.MultiIndex.from_tuples([('p', 0)]))": "a / x int64 right; a / 1 int64 right | p / 0: 1|2 | 1 2",
		} {
			if got := describeTable(w.showTable(code)); got != want {
				t.Errorf("%s:\ngot  %s\nwant %s", code, got, want)
			}
		}
	})

	t.Run("cuts large texts and tables visibly", func(t *testing.T) {
		t.Parallel()
		w := startTableWorker(t, "import pandas as pd")
		table := w.showTable("pd.DataFrame({'s': ['x' * 10 ** 6, [1] * 10 ** 6, {'k': 'y' * 10 ** 6}], 'n': [1, 2, b'z' * 10 ** 6]})")
		if table.Cut != 4 || table.Rows[0][0] != strings.Repeat("x", 200)+"…" || !strings.Contains(table.Rows[1][0], "...") {
			t.Errorf("got %d cut, %q", table.Cut, table.Rows)
		}
		wide := w.showTable("wide = pd.DataFrame({'\\x01' * 1000 + str(i): ['\\x01' * 1000] * 60 for i in range(120)}); wide")
		if len(wide.Columns) != 50 || wide.Total[1] != 120 || len(wide.Rows) == 0 || len(wide.Rows) >= 50 {
			t.Errorf("got %d columns of %d, %d rows", len(wide.Columns), wide.Total[1], len(wide.Rows))
		}
		if rest := w.queryTable(session.TableQuery{Handle: wide.Handle, Count: 1000}); len(rest.Rows) <= len(wide.Rows) || rest.Changed {
			t.Errorf("got %d rows, changed: %v", len(rest.Rows), rest.Changed)
		}
	})

	t.Run("pages, sorts and searches a data frame", func(t *testing.T) {
		t.Parallel()
		w := startTableWorker(t, "import pandas as pd")
		table := w.showTable(`f = pd.DataFrame({'n': [10.0, 9.0, None, 100.0], 's': ['b', 'A', None, 'a.c'], 'd': pd.to_datetime(['2024-01-31', '2024-02-01', None, '2025-01-01']).tz_localize('UTC'),
    'c': pd.Categorical(['lo', 'hi', 'hi', None], categories=['lo', 'hi'], ordered=True), 'm': [1, 'x', None, 2], 't': [True, False, True, True]}, index=list('pqrs'))
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
			{find("A"), "qs"}, {find("."), "s"}, {find("10"), "p"}, {find("HI"), "qr"}, {find("2024"), "pq"}, {find("2024-02"), "q"}, {find("false"), "q"}, {find("nothing"), ""},
			{both, "qr"}, {session.TableQuery{Handle: table.Handle, From: 2, Count: 1}, "r"}, {session.TableQuery{Handle: table.Handle, From: 9}, ""},
		} {
			got := w.queryTable(c.query)
			if strings.Join(got.Index, "") != c.want || got.Note != "" || got.Changed {
				t.Errorf("%d, %+v: got %q, %q, changed: %v, want %q", i, c.query, got.Index, got.Note, got.Changed, c.want)
			}
		}
		if got := w.queryTable(sort(4, false)); got.Note == "" || !got.Unsorted || strings.Join(got.Index, "") != "pqrs" {
			t.Errorf("a column of several types: got %q, %q", got.Index, got.Note)
		}
	})

	t.Run("pages, sorts and searches a data frame of polars", func(t *testing.T) {
		t.Parallel()
		w := startTableWorker(t, "import polars as pl, datetime")
		table := w.showTable("f = pl.DataFrame({'n': [10, None, 9], 's': ['b', 'A', None], 'l': [[1], [2], None], 'd': [datetime.date(2024, 1, 2), None, datetime.date(2025, 1, 2)]}); f")
		wantRows(t, table, "10|b|[1]|2024-01-02", "null|A|[2]|null", "9|null|null|2025-01-02")
		wantRows(t, w.queryTable(session.TableQuery{Handle: table.Handle, Sort: &session.TableSort{Column: 0}}), "9|null|null|2025-01-02", "10|b|[1]|2024-01-02", "null|A|[2]|null")
		found := w.queryTable(session.TableQuery{Handle: table.Handle, Find: "a", Sort: &session.TableSort{Column: 1, Descending: true}})
		wantRows(t, found, "null|A|[2]|null")
		if !strings.Contains(found.Note, "1 column of other types was not searched") {
			t.Errorf("got %q", found.Note)
		}
		wantRows(t, w.queryTable(session.TableQuery{Handle: table.Handle, Find: "2024"}), "10|b|[1]|2024-01-02")
		wantRows(t, w.queryTable(session.TableQuery{Handle: table.Handle, Find: "9"}), "9|null|null|2025-01-02")
		wantRows(t, w.showTable("pl.DataFrame()"))
	})

	// The first pages of a large table are sorted without the rest.
	t.Run("pages of a sorted table do not overlap", func(t *testing.T) {
		t.Parallel()
		for _, library := range []string{"pandas", "polars"} {
			w := startTableWorker(t, "import "+library)
			table := w.showTable("f = " + library + ".DataFrame({'n': range(60000), 'k': [i % 3 for i in range(60000)], 's': ['k%d' % (i % 3) for i in range(60000)]}); f")
			for _, c := range []struct {
				column     int
				descending bool
				from       int
				want       string
			}{
				{1, false, 0, "0 3"}, {1, false, 19999, "59997 1"}, {2, false, 0, "0 3"}, {2, false, 19999, "59997 1"},
				{1, true, 0, "2 5"}, {1, true, 19999, "59999 1"}, {2, true, 19999, "59999 1"}, {0, true, 100, "59899 59898"}, {0, false, 59999, "59999"},
			} {
				got := w.queryTable(session.TableQuery{Handle: table.Handle, From: c.from, Count: 2, Sort: &session.TableSort{Column: c.column, Descending: c.descending}})
				var rows []string
				for _, row := range got.Rows {
					rows = append(rows, row[0])
				}
				if strings.Join(rows, " ") != c.want {
					t.Errorf("%s, %+v: got %q, %s", library, c, rows, got.Note)
				}
			}
		}
	})

	t.Run("says that a data frame has changed, and that it is gone", func(t *testing.T) {
		t.Parallel()
		w := startTableWorker(t, "import pandas as pd, weakref")
		table := w.showTable("f = pd.DataFrame({'a': [1, 2]}); alive = weakref.ref(f); f")
		w.RunCode("f['a'] = 3")
		if got := w.queryTable(session.TableQuery{Handle: table.Handle}); !got.Changed || got.Rows[0][0] != "3" {
			t.Errorf("a changed table: got %+v", got)
		}
		w.RunCode("del f; 0")
		w.RunCode("alive() is None").WantOutput(t, "True\n")
		if got := w.queryTable(session.TableQuery{Handle: table.Handle}); got != nil {
			t.Errorf("a table that is gone: got %+v", got)
		}
		first := w.showTable("all = [pd.DataFrame({'a': [i]}) for i in range(17)]; all[0]")
		for i := 1; i < 17; i++ {
			w.showTable(fmt.Sprintf("all[%d]", i))
		}
		if got := w.queryTable(session.TableQuery{Handle: first.Handle}); got != nil {
			t.Errorf("the oldest of 17 tables: got %+v", got)
		}
		if other := startTableWorker(t, "import pandas as pd"); other.showTable("f = pd.DataFrame({'a': [1]}); f").Handle == table.Handle {
			t.Error("two workers use the same handle")
		}
	})

	// The echo and the other types of these values are what they were without tables.
	t.Run("is not disturbed by code of the user", func(t *testing.T) {
		t.Parallel()
		w := startTableWorker(t, "import pandas as pd, time")
		table := w.showTable(`class Own(pd.DataFrame):
    def __repr__(self): return 'own'
    def __getitem__(self, key): raise SystemExit
    iloc = columns = index = property(lambda self: 1 / 0)
    def _repr_html_(self): return '<p>'
own = Own({'a': [1]})
own`)
		wantRows(t, table, "1")
		table = w.showTable(`class Cell:
    def __repr__(self): print('printed'); return '<i>cell'
class Bad:
    bad = False
    def __repr__(self): return 1 if Bad.bad else 'good'
cells = pd.DataFrame({'c': [Cell(), Bad()]})
cells`)
		wantRows(t, table, "<i>cell", "good")
		w.RunCode("Bad.bad = True")
		wantRows(t, w.queryTable(session.TableQuery{Handle: table.Handle}), "<i>cell", "<Bad>")
		w.RunCode("1").WantOutput(t, "1\n")
		if got := w.showTable("display(pd.DataFrame({'a': [1]}), include=['text/html'])"); got != nil {
			t.Errorf("a display of chosen types: got %+v", got)
		}
	})

	t.Run("shows a million rows at once", func(t *testing.T) {
		t.Parallel()
		w := startTableWorker(t, "import pandas as pd, numpy as np, time")
		table := w.showTable("n = 10 ** 6; f = pd.DataFrame({'n': np.arange(n)[::-1], 's': ['name %d' % i for i in range(n)]}); f")
		if len(table.Rows) != 50 || table.Total[0] != 1000000 {
			t.Fatalf("got %d rows of %v", len(table.Rows), table.Total)
		}
		wantRows(t, w.queryTable(session.TableQuery{Handle: table.Handle, Count: 1, Sort: &session.TableSort{Column: 0}}), "0|name 999999")
		wantRows(t, w.queryTable(session.TableQuery{Handle: table.Handle, Find: "name 77777", From: 1, Count: 1}), "222229|name 777770")
	})
}

// describeTable returns the columns, rows and size of a table in one line. The type of texts
// depends on the version of pandas.
func describeTable(t *session.Table) string {
	if t == nil {
		return "no table"
	}
	var columns, rows []string
	for _, c := range t.Columns {
		kind := c.Type
		switch kind {
		case "str":
			kind = "object"
		case "datetime64[us, Europe/Berlin]":
			kind = "datetime64[ns, Europe/Berlin]"
		}
		columns = append(columns, strings.TrimRight(c.Name+" "+kind+" "+c.Align, " "))
	}
	for i, row := range t.Rows {
		rows = append(rows, t.Index[i]+": "+strings.Join(row, "|"))
	}
	return fmt.Sprintf("%s | %s | %d %d", strings.Join(columns, "; "), strings.Join(rows, "; "), t.Total[0], t.Total[1])
}
