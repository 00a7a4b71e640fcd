package supervisor

import "testing"

func TestSessionsForFiles(t *testing.T) {
	t.Parallel()
	for files, want := range map[int]int{0: 0, 64: 1, 1024: 96, 4096: 480, 1 << 20: 131040} {
		if got := sessionsForFiles(files); got != want {
			t.Errorf("%d open files: got %d sessions, want %d", files, got, want)
		}
	}
}
