package filestate

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A session may set the times of a file that it must not write.
func TestRecords_TimeSetBack(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config")
	writeTestFile(t, file, "one")
	was := StampOf(file)
	r := Records{file: Record{Stamp: was}}
	if r.HasChanged(file) {
		t.Fatal("an unchanged file counts as changed")
	}
	for StampOf(file).Changed == was.Changed { // the clock of some filesystems is coarse
		writeTestFile(t, file, "two")
		if err := os.Chtimes(file, time.Time{}, time.Unix(0, was.Modified)); err != nil {
			t.Fatal(err)
		}
	}
	if !r.HasChanged(file) {
		t.Error("the edit was not noticed")
	}
}
