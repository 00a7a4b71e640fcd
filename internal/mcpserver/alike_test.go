package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"
)

// Alike lines cost a model little, and the reply says what it leaves out.
func TestAlikeLines(t *testing.T) {
	t.Parallel()
	c := newPythonClient(t)
	c.runRepl("import random; random.seed(1)")
	for _, test := range []struct {
		name, input string
		most, least int    // characters
		part        string // of the reply
	}{
		{"steps of a loop", "for i in range(2000): print(f'step {i} loss {random.random():.4f}')", 4200, 3000, "step 1999 loss"},
		{"rows of a table", "print('          a         b         c')\nfor i in range(1000): print(f'{i:<4}{random.gauss(0,1):10.6f}{random.gauss(0,1):10.6f}{random.gauss(0,1):10.6f}')", 4200, 3000, "\n999 "},
		{"different lines", "for i in range(2000): print(' '.join(random.choice(['a', '1', 'b;', '(c)']) for _ in range(9)))", 10_000, 8000, ""},
		{"few alike lines", "for i in range(100): print(f'value {i} is {random.random():.6f}')", 4000, 1500, "value 50 is"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := c.runRepl(test.input)
			if n := len(got); n > test.most || n < test.least {
				t.Errorf("the reply has %d characters, want %d to %d", n, test.least, test.most)
			}
			wantPart(t, got, test.part)
			if n := strings.Count(got, "\n"); test.most == 4200 && !strings.Contains(got, "lines") {
				t.Errorf("%d of at least 1000 lines are shown, without a hint where the others are: %s", n, fmt.Sprint(got[1500:2500]))
			}
		})
	}
}
