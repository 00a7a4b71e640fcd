//go:build linux || windows

package r_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestFunction(t *testing.T) {
	t.Parallel()

	t.Run("is called like an R function", func(t *testing.T) {
		t.Parallel()
		s := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), newSpec(t, r.Options{}))
		s.WantOutput(t, "turnstone$add(2, b = 3)", "[1] 5\n")
		s.WantOutput(t, "turnstone$add(b = 1, a = 1L, at = list(x = 40))", "[1] 42\n")
		s.WantOutput(t, "sum(vapply(1:300, function(i) turnstone$add(i), 0L))", "[1] 45150\n")
		s.WantOutput(t, "ls(turnstone)", `[1] "add"         "block"       "echo"        "leaves"      "make"       `+"\n"+`[6] "panics"      "raise_error" "sleep"      `+"\n")
		s.WantOutput(t, "names(formals(turnstone$add))", `[1] "a"  "b"  "at"`+"\n")
		s.WantOutput(t, "turnstone$add", "turnstone$add(a, [b], [at])\nAdds numbers.\n\nThe way of all numbers.\n  a: integer. the first\n  b: integer. the second\n  at: object or null\n")
	})

	t.Run("converts values to R values", func(t *testing.T) {
		t.Parallel()
		s := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), newSpec(t, r.Options{}))
		s.WantOutput(t, `same <- function(x) { y <- turnstone$echo(x); if (!identical(x, y)) { str(x); str(y) } }
for (x in list(NULL, TRUE, 1L, -2147483647L, 1.5, 2, NaN, Inf, "na\u00efve", as.raw(0:255), c(1, 2.5), 1:20, c("a", NA, ""), c(TRUE, NA), c(1.5, NA),
  list(a = 1, b = list(c = "x")), list(1, "a"), data.frame(x = 1:3, y = c("a", "b", "c")), list(a = NULL, b = list()))) same(x)
identical(turnstone$echo(I(5)), 5); turnstone$echo(factor("f")); turnstone$echo(c(a = 1, b = 2))$b`, "[1] TRUE\n[1] \"f\"\n[1] 2\n")
		s.WantOutput(t, `x <- as.POSIXct(c(0.5, -1.5, 1767323045.678901, 32503680000), origin = "1970-01-01", tz = "UTC")
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
			res := s.RunCode(t, code)
			if res.Outcome != "error" || !strings.Contains(res.OutputText(), want) {
				t.Errorf("%s: %s %q, want %q", code, res.Outcome, res.OutputText(), want)
			}
		}
		s.WantOutput(t, `tryCatch(turnstone$raise_error("QuotaError", "used up"), QuotaError = function(e) cat(class(e), conditionMessage(e)))`,
			"QuotaError turnstoneError error condition wrapped: used up")
		wantCleanTurn(t, s)
	})

	t.Run("an interrupt ends the call and cancels its context", func(t *testing.T) {
		t.Parallel()
		h := sessionkit.NewTestHost()
		s := sessionkit.OpenWithHost(t, h, newSpec(t, r.Options{}))
		for i := range testmain.Rounds(20) {
			code := "turnstone$block('x')"
			if i%2 == 1 {
				code = "tryCatch(turnstone$block('x'), interrupt = function(e) cat('felt'))"
			}
			turn := s.StartTurn(t, code)
			<-h.BlockStarted
			if got := s.InterruptTurn(t, turn); got != session.InterruptIdle {
				t.Fatalf("round %d: the interrupt led to %s", i, got)
			}
			res := s.FinishTurn(t, turn)
			if res.InputRequests > 0 || i%2 == 0 && res.Outcome != "interrupted" || i%2 == 1 && !strings.Contains(res.OutputText(), "felt") {
				t.Fatalf("round %d: the turn ended %s: %q", i, res.Outcome, res.Transcript())
			}
			h.WaitAllEnded(t)
			s.WantOutput(t, "turnstone$add(1)", "[1] 1\n")
		}
		wantCleanTurn(t, s)
	})

	t.Run("the list may change at any time", func(t *testing.T) {
		t.Parallel()
		h := sessionkit.NewTestHost()
		s := sessionkit.OpenWithHost(t, h, newSpec(t, r.Options{}))
		f := h.HostFunctions()[1]
		f.Name = "plus"
		if err := s.SetFunctions(f); err != nil {
			t.Fatal(err)
		}
		s.WantOutput(t, "ls(turnstone); turnstone$plus(1, 2)", "[1] \"plus\"\n[1] 3\n")
		if err := s.SetFunctions(); err != nil {
			t.Fatal(err)
		}
		s.WantOutput(t, "ls(turnstone)", "character(0)\n")
	})

	t.Run("keeps the types of R values", func(t *testing.T) {
		t.Parallel()
		s := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), newSpec(t, r.Options{}))
		s.WantOutput(t, `x <- turnstone$echo; f <- factor(c("b", NA, "a")); d <- as.Date(c("2026-01-02", NA, "1899-12-31", "2000-02-29"))
identical(x(f), as.character(f)); identical(x(d), as.character(d)); identical(x(as.Date(1e5, "1970-01-01")), "2243-10-17")
identical(x(Sys.Date() + 0:400), as.character(Sys.Date() + 0:400)); identical(x(as.Date(-354000:-353000, "1970-01-01")), format(as.Date(-354000:-353000, "1970-01-01")))
t <- as.POSIXct("2026-03-04 05:06:07", tz = "UTC"); t2 <- as.POSIXct(c("2026-03-04 05:06:07", NA), tz = "UTC"); identical(x(t), t); identical(x(as.POSIXlt(t)), t); class(x(c(t, NA))); is.na(x(c(t, NA)))
identical(x(list(NULL, list(list(), I(1L)))), list(NULL, list(list(), 1L)))
identical(x(data.frame(d = d[1:2], f = factor(c("u", "v")), n = 1:2, s = c("a", NA), t = t2)),
  data.frame(d = c("2026-01-02", NA), f = c("u", "v"), n = 1:2, s = c("a", NA), t = t2))
identical(x(matrix(1:4, 2)), list(c(1L, 3L), c(2L, 4L))); str(x(table(c("p", "q", "q")))); identical(x(c(NA, NA)), c(NA, NA))
df <- data.frame(i = 1:2); df$l <- list(1:3, "a"); str(x(df)); identical(x(c(1L, NA, 3L)), c(1L, NA, 3L)); identical(x(c(NA_real_, NaN)), c(NA_real_, NaN))
identical(x(structure(list(), names = character())), structure(list(), names = character())); x(TRUE); x("\u00fc"); x(2^40)`,
			strings.Repeat("[1] TRUE\n", 7)+"[1] \"POSIXct\" \"POSIXt\" \n[1] FALSE  TRUE\n[1] TRUE\n[1] TRUE\n[1] TRUE\n"+
				"List of 2\n $ p: int 1\n $ q: int 2\n[1] TRUE\n"+
				"List of 2\n $ :List of 2\n  ..$ i: int 1\n  ..$ l: int [1:3] 1 2 3\n $ :List of 2\n  ..$ i: int 2\n  ..$ l: chr \"a\"\n"+
				"[1] TRUE\n[1] TRUE\n[1] TRUE\n[1] TRUE\n[1] \"ü\"\n[1] 1.099512e+12\n")
		for code, want := range map[string]string{
			"x(function() 1)":                                      "echo: argument value: a value of type closure cannot be sent",
			"x(list(a = globalenv()))":                             "echo: argument value.a: a value of type environment cannot be sent",
			"x(quote(a))":                                          "a value of type symbol cannot be sent",
			"x(list(a = 1, 2))":                                    "echo: argument value: some of its names are empty",
			"x(as.POSIXct(Inf, origin = '1970-01-01'))":            "a time that is infinite",
			"x(iconv('\\u00fc', 'UTF-8', 'latin1'))":               `[1] "ü"`,
			`x("\xff")`:                                            "echo: argument value: the text is not UTF-8: send raw bytes",
			"x(raw(33 * 2^20))":                                    "echo: argument value: it is too large: at most 33554432 bytes",
			"x(data.frame(a = I(matrix(1:2, 1))))":                 "echo: argument value.a: this column of a data frame is no plain vector or list",
			"e <- new.env(); l <- list(list(list(list(e)))); x(l)": "echo: argument value[1][1][1][1]: a value of type environment",
		} {
			if res := s.RunCode(t, code); !strings.Contains(res.OutputText(), want) {
				t.Errorf("%s: %s %q, want %q", code, res.Outcome, res.OutputText(), want)
			}
		}
		s.WantOutput(t, "gctorture(TRUE); y <- x(list(a = c('p', 'q'), b = data.frame(u = 1:3, v = c('x', 'y', NA)), t = t)); gctorture(FALSE)\nidentical(y$b$v, c('x', 'y', NA)) && identical(y$t, t)", "[1] TRUE\n")
		wantCleanTurn(t, s)
	})

	// Long vectors are read and written in one step.
	t.Run("passes a million values at once", func(t *testing.T) {
		t.Parallel()
		s := sessionkit.OpenWithHost(t, sessionkit.NewTestHost(), newSpec(t, r.Options{}))
		s.WantOutput(t, "for (x in list(as.double(1:1e6), 1:1e6, as.character(1:3e5))) print(identical(turnstone$echo(x), x))", strings.Repeat("[1] TRUE\n", 3))
	})
}
