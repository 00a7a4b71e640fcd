package session

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Bounds of tables. A worker leaves out what exceeds them, and says so in the table.
const (
	MaxTableRows    = 1000      // of one page
	MaxTableColumns = 50        // the first ones are shown
	MaxTableBytes   = 256 << 10 // of a page as JSON
	MaxFindBytes    = 1000      // of TableQuery.Find
)

const maxHandleBytes = 64

// AlignRight is the Align of a column of numbers.
const AlignRight = "right"

// A Table is a part of a data frame: some rows of its first columns, as text. Displays of data
// frames have their first rows in this form, as the type timeline.MIMETable.
type Table struct {
	V       int           `json:"v"` // 1
	Columns []TableColumn `json:"columns"`
	Index   []string      `json:"index,omitempty"` // the names of Rows, if the table has names for them
	Rows    [][]string    `json:"rows"`            // a text for each of Columns
	Total   []int         `json:"total"`           // the rows and columns of the whole table

	// Handle is what a TableQuery needs for more rows. It is empty if there are no more to have.
	Handle string `json:"handle,omitempty"`

	From    int  `json:"from,omitempty"`    // how many rows are before Rows, in the order of the query
	Matched int  `json:"matched,omitempty"` // of a TableQuery: how many rows it found; without Find, all
	Cut     int  `json:"cut,omitempty"`     // the number of texts that are cut; "…" or "..." is where
	Changed bool `json:"changed,omitempty"` // the table is no longer the one that was shown
	// Unsorted says that the rows are not in the order of the query. Note has the reason.
	Unsorted bool `json:"unsorted,omitempty"`

	Note string `json:"note,omitempty"` // what a user should know about this answer, in one sentence
}

// A TableColumn describes a column of a Table.
type TableColumn struct {
	Name  string `json:"name"` // need not be unique
	Type  string `json:"type"` // in the terms of the language
	Align string `json:"align,omitempty"`
}

// A TableQuery asks for rows of a data frame that a session has shown.
type TableQuery struct {
	Handle string     `json:"handle"`
	From   int        `json:"from,omitempty"` // the rows before the first one to return
	Count  int        `json:"count"`          // at most MaxTableRows
	Sort   *TableSort `json:"sort,omitempty"`
	Find   string     `json:"find,omitempty"` // only rows that have this text, or a number that equals it
}

// A TableSort is an order of rows. Missing values are last in both directions.
type TableSort struct {
	Column     int  `json:"column"` // index in Table.Columns
	Descending bool `json:"descending,omitempty"`
}

// A TablePage is the answer to a TableQuery. Table is nil if the table is no longer there: the
// code has deleted or replaced it, or its worker has ended.
type TablePage struct {
	Table *Table `json:"table,omitempty"`
}

// Check returns an error of KindInvalid if the query exceeds a bound.
func (q TableQuery) Check() error {
	switch {
	case q.Handle == "" || len(q.Handle) > maxHandleBytes:
		return Errorf(KindInvalid, "handle is not the handle of a table")
	case q.From < 0 || q.Count < 1 || q.Count > MaxTableRows:
		return Errorf(KindInvalid, "from is at least 0, and count is from 1 to %d", MaxTableRows)
	case q.Sort != nil && (q.Sort.Column < 0 || q.Sort.Column >= MaxTableColumns):
		return Errorf(KindInvalid, "sort.column is from 0 to %d", MaxTableColumns-1)
	case len(q.Find) > MaxFindBytes || !utf8.ValidString(q.Find):
		return Errorf(KindInvalid, "find has at most %d bytes of UTF-8", MaxFindBytes)
	}
	return nil
}

// DecodeTable decodes and checks a Table that a worker or user code has made.
func DecodeTable(data []byte) (*Table, error) {
	t := &Table{}
	if len(data) > MaxTableBytes {
		return nil, fmt.Errorf("a table of %d bytes exceeds the bound of %d", len(data), MaxTableBytes)
	}
	if err := json.Unmarshal(data, t); err != nil {
		return nil, fmt.Errorf("the table cannot be decoded: %w", err)
	}
	columns, rows := len(t.Columns), len(t.Rows)
	good := t.V == 1 && columns <= MaxTableColumns && rows <= MaxTableRows && (len(t.Index) == 0 || len(t.Index) == rows) &&
		len(t.Total) == 2 && t.Total[0] >= rows && t.Total[1] >= columns && t.From >= 0 && t.Matched >= 0 && t.Cut >= 0
	for _, row := range t.Rows {
		good = good && len(row) == columns
	}
	if !good {
		return nil, fmt.Errorf("the table does not follow the protocol")
	}
	return t, nil
}

// Texts calls change for each text of the table and stores its result.
func (t *Table) Texts(change func(string) string) {
	for i := range t.Columns {
		c := &t.Columns[i]
		c.Name, c.Type = change(c.Name), change(c.Type)
	}
	for i := range t.Index {
		t.Index[i] = change(t.Index[i])
	}
	for _, row := range t.Rows {
		for i := range row {
			row[i] = change(row[i])
		}
	}
	t.Note = change(t.Note)
}
