//go:build unix

package remote

import (
	"slices"
	"strings"
	"testing"
)

func TestWithoutLoginFlag(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--nonce x --login-env --start=auto":       "--nonce x --start=auto",
		"-login-env --login-env=true -login-env=1": "",
		"--nonce login": "--nonce login",
	} {
		if got := withoutLoginFlag(strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q", args, got)
		}
	}
}
