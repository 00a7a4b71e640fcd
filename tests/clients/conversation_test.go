//go:build linux

package clients

import (
	"bytes"
	"image"
	_ "image/png"
	"strings"
	"testing"
)

// The model of an agent gets the right replies in a series of calls.
func TestAgents_Conversation(t *testing.T) {
	const draw = `
import matplotlib.pyplot as plt
_ = plt.plot([1, 4, 9])
plt.show()`
	steps := []struct {
		input string
		want  string // in the reply
		image bool
	}{
		{"x = 6 * 7", "[sandbox workspace: it writes ", false},
		{"x", "42", false},
		{"name = input('name? ')", `[waiting for input: "name? "]`, false},
		{"Ada", ", no output]", false},
		{"name", "'Ada'", false},
		{"1 / 0", "ZeroDivisionError: division by zero", false},
		{draw, "[image", true},
		{"import os\nos._exit(3)", "exit", false},
		{"print('name' in globals())", "False", false},
	}
	for _, a := range mainAgents {
		t.Run(a.name, func(t *testing.T) {
			var calls []toolCall
			for _, s := range steps {
				calls = append(calls, replCall(s.input))
			}
			got := a.runAgent(t, agentOptions{}, calls...).seenResults()
			for i, s := range steps {
				t.Logf("%q: %q", s.input, got[i].text)
				if !strings.Contains(got[i].text, s.want) {
					t.Errorf("%q: the model received %q, want %q", s.input, got[i].text, s.want)
				}
				if s.image != (len(got[i].images) == 1) {
					t.Errorf("%q: the model received %d images", s.input, len(got[i].images))
				}
				for _, data := range got[i].images {
					if _, kind, err := image.DecodeConfig(bytes.NewReader(data)); kind != "png" {
						t.Errorf("%q: got an image of type %q: %v", s.input, kind, err)
					}
				}
			}
		})
	}
}
