package transportcmd

import (
	"slices"
	"strings"
	"testing"
)

func TestSplitWords(t *testing.T) {
	t.Parallel()

	t.Run("splits like a shell without expansion", func(t *testing.T) {
		t.Parallel()
		for command, want := range map[string][]string{
			"ssh gpu1":                            {"ssh", "gpu1"},
			"  ssh\t-p 22   gpu1 ":                {"ssh", "-p", "22", "gpu1"},
			`ssh -o 'ProxyCommand=nc %h $p' x`:    {"ssh", "-o", "ProxyCommand=nc %h $p", "x"},
			`"/opt/my tools/ssh" x`:               {"/opt/my tools/ssh", "x"},
			`sh -c 'a && b | c; d > e' sh`:        {"sh", "-c", "a && b | c; d > e", "sh"},
			`a\ b c\$d "e;f" g*?~{job}#`:          {"a b", "c$d", "e;f", "g*?~{job}#"},
			`kubectl exec -i pod -- "it's" '"x"'`: {"kubectl", "exec", "-i", "pod", "--", "it's", `"x"`},
		} {
			if got, err := SplitWords(command); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: got %q, %v", command, got, err)
			}
			if again, err := SplitWords(JoinWords(want)); err != nil || !slices.Equal(again, want) {
				t.Errorf("%s: joined and split it is %q, %v", command, again, err)
			}
		}
	})

	t.Run("rejects what only a shell could do", func(t *testing.T) {
		t.Parallel()
		for command, want := range map[string]string{
			"":                  "no command in",
			"   ":               "no command in",
			`'' x`:              "no command in",
			"ssh $HOST":         `"$" does nothing`,
			`ssh "$HOST"`:       `"$" does nothing`,
			"ssh `hostname`":    "\"`\" does nothing",
			"ssh a && b":        `"&" does nothing`,
			"ssh a | tee x":     `"|" does nothing`,
			"ssh a; b":          `";" does nothing`,
			"ssh a 2>/dev/null": `">" does nothing`,
			"ssh 'a":            "a quote is not closed",
			`ssh "a`:            "a quote is not closed",
			`ssh a\`:            "nothing follows the last",
			"ssh a\nrm b":       "does nothing",
			"ssh a\x00b":        "zero byte",
		} {
			if got, err := SplitWords(command); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %q, %v, want %q", command, got, err, want)
			}
		}
	})
}

func TestIsPlainWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]bool{
		"--start=auto": true, "/run/user/1000/turnstone/daemon.sock": true, "30s": true,
		"": false, "a b": false, "$x": false, "a'": false, "~": false, "ä": false, "a\n": false, "*": false, "a;b": false, "!x": false, `C:\x`: false, "#": false,
	} {
		if IsPlainWord(word) != want {
			t.Errorf("%q: got %t", word, !want)
		}
	}
}
