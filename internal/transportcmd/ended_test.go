package transportcmd

import "testing"

func TestIsNotFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		said   string
		want   bool
	}{
		{127, "bash: line 1: repl: command not found", true},
		{126, "bash: line 1: /srv/ada/.cache/repl: Permission denied", true},
		{127, `OCI runtime exec failed: exec failed: unable to start container process: exec: "repl": executable file not found in $PATH: unknown`, true},
		{1, `error: Internal error occurred: error executing command in container: exec: "repl": executable file not found in $PATH`, true},
		{2, "slurmstepd: error: execve(): repl: No such file or directory", true},
		{1, "repl: Command not found.", true},
		{1, "'repl' is not recognized as an internal or external command,", true},
		{1, `Error from server (NotFound): pods "box" not found`, false},
		{255, "ssh: Could not resolve hostname repl: Name or service not known; not found", false},
		{1, "Error: No such container: box", false},
		{0, "", false},
	} {
		if got := IsNotFound(c.status, c.said, "/x/repl"); got != c.want {
			t.Errorf("%d, %q: got %v", c.status, c.said, got)
		}
	}
}

func TestFailureHint(t *testing.T) {
	t.Parallel()
	const want = "run ssh -p 22 'gpu 1' true once in a terminal to see what ssh asks or refuses"
	if got := FailureHint([]string{"ssh", "-p", "22", "gpu 1"}, "Host key verification failed.\r\n"); got != want {
		t.Errorf("got %q", got)
	}
	if got := FailureHint([]string{"docker", "exec"}, "Permission denied"); got != "" {
		t.Errorf("got %q", got)
	}
}
