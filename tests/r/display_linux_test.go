package r_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// Each DT table is a separate page that contains its libraries.
func TestDisplay_WidgetPages(t *testing.T) {
	t.Parallel()
	s := openSession(t, r.Options{})
	if s.RunCode(t, "library(DT)").Outcome != "ok" {
		t.Skip("R has no DT: install it with apt-get install r-cran-dt")
	}
	for i := range 10 {
		s.RunCode(t, fmt.Sprintf("datatable(data.frame(a = seq(%d, length.out = 50), b = 'table %d'))", i, i))
	}
	log := s.Log()
	log.Sync()
	tables := 0
	for _, e := range log.Read(timeline.ReadRange{MaxEvents: 1000, MaxBytes: 64 << 20, MaxTypeBytes: 64 << 20}) {
		d, ok := e.Body.(timeline.Display)
		if !ok {
			continue
		}
		page := d.Data["text/html"]
		if own := fmt.Sprintf("table %d", tables); !bytes.Contains(page, []byte(own)) || !bytes.Contains(page, []byte("DataTable")) {
			t.Errorf("%q or its library is not in a page of %d bytes", own, len(page))
		}
		tables++
	}
	if tables != 10 {
		t.Errorf("got %d pages, want 10", tables)
	}
}
