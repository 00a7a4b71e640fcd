package diagnose

import "testing"

func TestIsReplyTwo(t *testing.T) {
	for text, want := range map[string]bool{
		"2\n": true, "2": true, "[this is /usr/bin/python3]\n2\n": true,
		"": false, "[1] 2\n": false, "libpython3.12.so\n": false, "[session ended: exit status 127; peak memory 2 MB]\n": false, "2\nx\n": false,
	} {
		if got := isReplyTwo(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
