package mcpserver

import "testing"

func TestClientOfSession(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"c1-main": "c1", "c12-a-b": "c12", "main": "", "c-main": "", "cat-main": "", "c1": "", "": ""} {
		if got := ClientOfSession(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
