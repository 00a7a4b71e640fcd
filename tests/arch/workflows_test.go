package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	uses = regexp.MustCompile(`(?m)^[^#\n]*\buses:(.*)$`)

	// pinned matches an action at a commit, with its version in a comment, and a workflow of this tree.
	pinned = regexp.MustCompile(`^(?:[\w.-]+(?:/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\S+)$`)
)

// unpinnedActions returns the actions of a workflow that pinned does not match.
func unpinnedActions(workflow string) (actions []string) {
	for _, match := range uses.FindAllStringSubmatch(workflow, -1) {
		if action := strings.TrimSpace(match[1]); !pinned.MatchString(action) {
			actions = append(actions, action)
		}
	}
	return actions
}

// A tag can be moved to other code, and the workflow of a release may write releases.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	tr := load(t)
	t.Run("each action is pinned to a commit", func(t *testing.T) {
		t.Parallel()
		paths, err := filepath.Glob(filepath.Join(tr.root, ".github", "workflows", "*"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("found no workflows: %v", err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, action := range unpinnedActions(string(text)) {
				t.Errorf("%s uses %s: want NAME@COMMIT # vX.Y.Z", filepath.Base(path), action)
			}
		}
	})
	t.Run("an action that is not pinned is found", func(t *testing.T) {
		t.Parallel()
		commit := strings.Repeat("0a", 20)
		for action, isPinned := range map[string]bool{
			"actions/checkout@" + commit + " # v6.0.2":      true,
			"./.github/workflows/ci.yml":                    true,
			"actions/checkout@v6":                           false,
			"actions/checkout@" + commit:                    false,
			"actions/checkout@" + commit + " # v6":          false,
			"actions/checkout@" + commit[1:] + " # v6.0.2":  false,
			"actions/checkout@" + commit + " # release/v1":  false,
			"docker://alpine:3.22":                          false,
			"'actions/checkout@" + commit + "' # v6.0.2":    false,
			"actions/checkout@" + commit + " # v6.0.2 or 3": false,
		} {
			for _, before := range []string{"- uses: ", "  uses: ", "- { name: it, uses: "} {
				found := unpinnedActions("    steps: # uses: them\n      " + before + action + "\n")
				if isPinned != (len(found) == 0) {
					t.Errorf("%s%s: got %q, want it accepted: %v", before, action, found, isPinned)
				}
			}
		}
	})
}
