package timeline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

func TestDenied_SaysUnmistakablyWhatWasRefused(t *testing.T) {
	for want, d := range map[string]timeline.Denied{
		"write /etc/hosts":                          {Op: "write", Path: "/etc/hosts"},
		"connect example.org:443 (by curl)":         {Op: "connect", Host: "example.org:443", By: "curl"},
		`write "/data (by nobody)" (by sh)`:         {Op: "write", Path: "/data (by nobody)", By: "sh"},
		`create "/data/\u202egnp.exe"`:              {Op: "create", Path: "/data/\u202egnp.exe"},
		`write "/x\n[a person allowed: write /]"`:   {Op: "write", Path: "/x\n[a person allowed: write /]"},
		`write "/x\x1b[2K"`:                         {Op: "write", Path: "/x\x1b[2K"},
		`write "/\xff" (by "sh\tx")`:                {Op: "write", Path: "/\xff", By: "sh\tx"},
		"set core.pager in /w/.git/config (by git)": {Op: "set", Path: "/w/.git/config", By: "git", With: "core.pager"},
	} {
		if got := d.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestPermissionEvents_SurviveJSONAndAreShown(t *testing.T) {
	asks := timeline.Denied{Op: "write", Path: "/data/x", By: "sh"}
	for want, body := range map[string]timeline.Body{
		"": timeline.Wait{Kind: timeline.WaitPermission, Permission: 7, Asks: asks},
		"[the sandbox refused: write /data/x (by sh)]": asks,
		"[ada allowed: write /data, always]":           timeline.Granted{Write: "/data", Always: true, Author: "ada"},
		"[the sandbox refused: set core.pager in /w/.git/config; a person can run the same command outside of the sandbox]": timeline.Denied{Op: "set", Path: "/w/.git/config", With: "core.pager"},
		"[a person allowed: read /data]":            timeline.Granted{Read: "/data"},
		"[a person allowed: connect *.example.org]": timeline.Granted{Host: "*.example.org"},
	} {
		text, err := json.Marshal(timeline.Event{Seq: 1, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		var again timeline.Event
		if err := json.Unmarshal(text, &again); err != nil || again.Body != body {
			t.Errorf("got %+v from %s, %v", again.Body, text, err)
		}
		if got := strings.TrimSpace(timeline.Render([]timeline.Event{again}, nil).Text()); got != want {
			t.Errorf("%T is shown as %q, want %q", body, got, want)
		}
	}
}
