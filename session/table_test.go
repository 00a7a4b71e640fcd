package session_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestDecodeTable(t *testing.T) {
	const good = `{"v":1,"columns":[{"name":"a","type":"int64","align":"right"}],"index":["0"],"rows":[["1"]],"total":[7,2],"handle":"t1","unknown":{}}`
	table, err := session.DecodeTable([]byte(good))
	if err != nil || table.Rows[0][0] != "1" || table.Total[1] != 2 {
		t.Fatalf("got %+v, %v", table, err)
	}
	if _, err := session.DecodeTable([]byte(`{"v":1,"columns":[],"rows":[],"total":[0,0]}`)); err != nil {
		t.Errorf("an empty table: %v", err)
	}
	t.Run("refuses what the page could not show", func(t *testing.T) {
		for from, to := range map[string]string{
			`"v":1`:         `"v":2`,
			`[["1"]]`:       `[["1","2"]]`,
			`"index":["0"]`: `"index":["0","1"]`,
			`[7,2]`:         `[7]`,
			`"total":[7`:    `"total":[0`,
			`["1"]`:         `[1]`,
			`"handle":"t1"`: `"from":-1`,
			`"t1"`:          `"` + strings.Repeat("x", session.MaxTableBytes) + `"`,
			`"unknown":{}`:  `"unknown":`,
			`[{"name":"a","type":"int64","align":"right"}]`: `[` + strings.Repeat(`{"name":""},`, session.MaxTableColumns) + `{}]`,
		} {
			if got, err := session.DecodeTable([]byte(strings.Replace(good, from, to, 1))); err == nil {
				t.Errorf("%.50s: got %+v", to, got)
			}
		}
	})
	t.Run("changes each text", func(t *testing.T) {
		table.Texts(func(text string) string { return strings.ReplaceAll(text, "1", "•") })
		if table.Rows[0][0] != "•" {
			t.Errorf("got %+v", table)
		}
	})
}
