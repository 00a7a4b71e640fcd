//go:build linux || darwin

package python_test

import "testing"

func TestWorker_ExpressionIsDisplayed(t *testing.T) {
	w := start(t, setup{})
	w.run("1+1").wants(t, "2\n")
	w.run("x = 5").wants(t, "")
	w.run("print(x)").wants(t, "5\n")
}
