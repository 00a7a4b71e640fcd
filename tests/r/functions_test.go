//go:build linux || windows

package r_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/tests/drive"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// wants runs a turn and compares what it prints.
func wants(t *testing.T, s *drive.REPL, code, want string) {
	t.Helper()
	res := s.Run(t, code)
	var text strings.Builder
	for _, e := range res.Events {
		if b, ok := e.Body.(timeline.Text); ok {
			text.Write(b.Data)
		}
	}
	if got := text.String(); got != want {
		t.Errorf("%.300s\ngot  %.2000q (%s),\nwant %.2000q", code, got, res.Outcome, want)
	}
}

func TestFunction_IsCalledLikeOneOfR(t *testing.T) {
	s := drive.OpenHost(t, drive.NewHost(), spec(t, r.Options{}))
	wants(t, s, "turnstone$add(2, b = 3)", "[1] 5\n")
	wants(t, s, "turnstone$add(b = 1, a = 1L, at = list(x = 40))", "[1] 42\n")
	wants(t, s, "sum(vapply(1:300, function(i) turnstone$add(i), 0L))", "[1] 45150\n")
	wants(t, s, "ls(turnstone)", `[1] "add"         "block"       "echo"        "leaves"      "make"       `+"\n"+`[6] "panics"      "raise_error" "sleep"      `+"\n")
	wants(t, s, "names(formals(turnstone$add))", `[1] "a"  "b"  "at"`+"\n")
	wants(t, s, "turnstone$add", "turnstone$add(a, [b], [at])\nAdds numbers.\n\nThe way of all numbers.\n  a: integer. the first\n  b: integer. the second\n  at: object or null\n")
}

func TestFunction_ValuesAreThoseOfR(t *testing.T) {
	s := drive.OpenHost(t, drive.NewHost(), spec(t, r.Options{}))
	wants(t, s, `same <- function(x) { y <- turnstone$echo(x); if (!identical(x, y)) { str(x); str(y) } }
for (x in list(NULL, TRUE, 1L, -2147483647L, 1.5, 2, NaN, Inf, "na\u00efve", as.raw(0:255), c(1, 2.5), 1:20, c("a", NA, ""), c(TRUE, NA), c(1.5, NA),
  list(a = 1, b = list(c = "x")), list(1, "a"), data.frame(x = 1:3, y = c("a", "b", "c")), list(a = NULL, b = list()))) same(x)
identical(turnstone$echo(I(5)), 5); turnstone$echo(factor("f")); turnstone$echo(c(a = 1, b = 2))$b`, "[1] TRUE\n[1] \"f\"\n[1] 2\n")
	wants(t, s, `x <- as.POSIXct(c(0.5, -1.5, 1767323045.678901, 32503680000), origin = "1970-01-01", tz = "UTC")
max(abs(as.numeric(turnstone$echo(x)) - as.numeric(x))) < 1e-5; length(turnstone$make(3e6))`, "[1] TRUE\n[1] 3000000\n")
	for code, want := range map[string]string{
		"turnstone$echo(list(1, list(f = sum)))":                   "echo: argument value[2].f: a value of type builtin cannot be sent",
		"turnstone$echo(1i)":                                       "a value of type complex cannot be sent",
		"x <- 1; for (i in 1:200) x <- list(x); turnstone$echo(x)": "nested deeper than 128",
		"turnstone$raise_error('', 'no such table')":               "no such table",
		"turnstone$panics()":                                       "the function panicked: oh no",
		"turnstone$add(b = 'x', 1, 2, 3, 4)":                       "unused argument",
		"turnstone$add(b = 'x')":                                   "missing a; b is a string, not integer",
		"turnstone$add(1.5)":                                       "a is the number 1.5, not integer",
	} {
		res := s.Run(t, code)
		if res.Outcome != "error" || !strings.Contains(res.Text(), want) {
			t.Errorf("%s: %s %q, want %q", code, res.Outcome, res.Text(), want)
		}
	}
	wants(t, s, `tryCatch(turnstone$raise_error("QuotaError", "used up"), QuotaError = function(e) cat(class(e), conditionMessage(e)))`,
		"QuotaError turnstoneError error condition wrapped: used up")
	clean(t, s)
}

func TestFunction_AnInterruptEndsTheCallAndItsContext(t *testing.T) {
	h := drive.NewHost()
	s := drive.OpenHost(t, h, spec(t, r.Options{}))
	for i := range drive.Rounds(20) {
		code := "turnstone$block('x')"
		if i%2 == 1 {
			code = "tryCatch(turnstone$block('x'), interrupt = function(e) cat('felt'))"
		}
		turn := s.Begin(t, code)
		<-h.Blocked
		if got := s.InterruptTurn(t, turn); got != session.InterruptIdle {
			t.Fatalf("round %d: the interrupt led to %s", i, got)
		}
		res := s.Finish(t, turn)
		if res.Waits > 0 || i%2 == 0 && res.Outcome != "interrupted" || i%2 == 1 && !strings.Contains(res.Text(), "felt") {
			t.Fatalf("round %d: the turn ended %s: %q", i, res.Outcome, res.Script())
		}
		h.AllEnded(t)
		wants(t, s, "turnstone$add(1)", "[1] 1\n")
	}
	clean(t, s)
}

func TestFunction_ListMayChangeAtAnyTime(t *testing.T) {
	h := drive.NewHost()
	s := drive.OpenHost(t, h, spec(t, r.Options{}))
	f := h.Functions()[1]
	f.Name = "plus"
	if err := s.SetFunctions(f); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "ls(turnstone); turnstone$plus(1, 2)", "[1] \"plus\"\n[1] 3\n")
	if err := s.SetFunctions(); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "ls(turnstone)", "character(0)\n")
}

// A long vector is slow to read, and must not be quadratic.
func TestFunction_ReadsOneOfAHundredThousandNumbers(t *testing.T) {
	s := drive.OpenHost(t, drive.NewHost(), spec(t, r.Options{}))
	wants(t, s, "x <- as.double(1:100000); system.time(y <- turnstone$echo(x))[[3]] < 30; identical(x, y)", "[1] TRUE\n[1] TRUE\n")
}
