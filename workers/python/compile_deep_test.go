//go:build linux || darwin

package python_test

import (
	"fmt"
	"strings"
	"testing"
)

// The compiler accepts code that is nested too deeply for a syntax tree in Python.
func TestDeepCode(t *testing.T) {
	t.Parallel()
	var branches strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&branches, "elif n == %d: x = n\n", i)
	}
	deep := strings.NewReplacer("SUM", "1"+strings.Repeat("+1", 2599), "ATTR", "a"+strings.Repeat(".a", 1300), "ELIF", branches.String())
	eachPython(t, func(t *testing.T, s workerSetup) {
		for name, inputs := range map[string][][2]string{
			"a long sum": {
				{"x = SUM\nx", "2600\n"},
				{"x = 1; SUM", "2600\n"},
				{"x = 1\nSUM;", ""},
				{"if x:\n    y = SUM\nelse: SUM\n# the end", ""},
				{"(SUM,\n1) # ; more", "(2600, 1)\n"},
				{"for i in 1,: x; SUM", ""},
			},
			"attributes": {
				{"class A:\n    @property\n    def a(self): return self\n    def __repr__(self): return 'A()'\nx = A()", ""},
				{"y = 1\nx.ATTR", "A()\n"},
			},
			"an if with many branches": {
				{"n = 1100", ""},
				{"if n == -1: pass\nELIF\nx", "1100\n"},
			},
			"with an await": {
				{"import asyncio\nx = SUM\nawait asyncio.sleep(0, x)", "2600\n"},
			},
			"an error shows its line": {
				{"try:\n    y = SUM + z\nexcept NameError as e: print(e.__traceback__.tb_lineno)", "2\n"},
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var made [][2]string
				for _, in := range inputs {
					made = append(made, [2]string{deep.Replace(in[0]), in[1]})
				}
				wantOutputs(t, s, made...)
			})
		}
	})
}
