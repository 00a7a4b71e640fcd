package pty

import (
	"os"
	"testing"

	"golang.org/x/sys/windows"
)

// An empty write to a pseudo console is not the end of its output.
func TestConsoleEmptyWrite(t *testing.T) {
	var r, w windows.Handle
	if err := windows.CreatePipe(&r, &w, nil, 0); err != nil {
		t.Fatal(err)
	}
	out := os.NewFile(uintptr(r), "out")
	defer out.Close()
	raw, err := out.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	c := &Console{out: out, outRaw: raw}
	for _, text := range []string{"", "x"} {
		var n uint32
		if err := windows.WriteFile(w, []byte(text), &n, nil); err != nil {
			t.Fatal(err)
		}
	}
	windows.CloseHandle(w)
	var got string
	b := make([]byte, 10)
	for {
		n, err := c.read(b)
		if got += string(b[:n]); err != nil {
			break
		}
	}
	if got != "x" {
		t.Errorf("got %q, want the text after the empty write", got)
	}
}
