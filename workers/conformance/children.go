package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func channelIsNotInTheEnvironment(s *workerSession) error {
	got, err := s.runShell(`echo "[${REPL_IPC-gone}]"`)
	if err == nil && got != "[gone]\n" {
		err = fmt.Errorf("a child sees REPL_IPC: %q", got)
	}
	return err
}

func childrenDoNotInheritTheChannel(s *workerSession) error {
	got, err := s.runShell(`for f in /dev/fd/*; do if [ -p "$f" ]; then ls -Li "$f"; fi; done; echo done`)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(got, "done\n") {
		return fmt.Errorf("a child printed %q, want done at the end", got)
	}
	for line := range strings.Lines(got) { // "4711 /dev/fd/5"; some pipes may be unrelated
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(number, 10, 64); err == nil && slices.Contains(s.pipes, n) {
			return fmt.Errorf("a child has the channel as %s", name)
		}
	}
	return nil
}

// runShell runs a shell command from code in the worker's language, and returns its output.
func (s *workerSession) runShell(command string) (string, error) {
	if s.Shell == nil {
		return "", skipError("the dialect has no code that runs a shell")
	}
	if err := s.ensureIdle(); err != nil {
		return "", err
	}
	if !s.ready.Capabilities.Fence {
		return "", skipError("the worker does not offer sync markers, which show when a child's output is complete")
	}
	r, err := s.runTurn(s.Shell(command))
	return r.text, err
}
