package r_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// Each table of DT is a page with the same libraries in it. The session's files have those once.
func TestDisplay_TheLibrariesOfWidgetsAreKeptOnce(t *testing.T) {
	t.Parallel()
	s := open(t, r.Options{})
	if s.Run(t, "library(DT)").Outcome != "ok" {
		t.Skip("R has no DT: install it with apt-get install r-cran-dt")
	}
	for i := range 10 {
		s.Run(t, fmt.Sprintf("datatable(data.frame(a = seq(%d, length.out = 50), b = 'table %d'))", i, i))
	}
	log := s.Log()
	log.Sync()
	largest, sum, tables := 0, 0, 0
	for _, e := range log.Read(timeline.Span{Limit: 1000, Bytes: 64 << 20, Part: 64 << 20}) {
		d, ok := e.Body.(timeline.Display)
		if !ok {
			continue
		}
		page := d.Data["text/html"]
		if own := fmt.Sprintf("table %d", tables); !bytes.Contains(page, []byte(own)) || !bytes.Contains(page, []byte("DataTable")) {
			t.Errorf("%q or its library is not in a page of %d bytes", own, len(page))
		}
		largest, sum, tables = max(largest, len(page)), sum+len(page), tables+1
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(log.OutputPath()), timeline.EventsName))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pages with %d bytes take %d", tables, sum, info.Size())
	if tables != 10 || info.Size() > 3*int64(largest) {
		t.Errorf("%d pages of %d bytes, %d together, take %d bytes of the file", tables, largest, sum, info.Size())
	}
}
