//go:build linux || darwin

package r_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// runQuery sends a query with the cursor at the end of text, and returns the answer.
func runQuery(t *testing.T, w *worker, kind ipc.QueryKind, text string) ipc.QueryResult {
	t.Helper()
	w.SendMessage(ipc.Query{ID: 1, Kind: kind, Text: text, Cursor: uint64(len(text))})
	answer, ok := w.NextEvent().(ipc.QueryResult)
	if !ok {
		t.Fatalf("%s of %q: the answer is not a result", kind, text)
	}
	return answer
}

func TestQuery(t *testing.T) {
	t.Parallel()

	// Queries about text do not run the user's handlers for errors and warnings.
	t.Run("runs no handlers of the user", func(t *testing.T) {
		t.Parallel()
		log := filepath.Join(t.TempDir(), "log")
		handler := func(what string) string {
			return fmt.Sprintf("cat('%s\\n', file = '%s', append = TRUE)", what, log)
		}
		for name, code := range map[string]string{
			"an error option":         fmt.Sprintf("options(error = quote(%s))", handler("option")),
			"an option that ends R":   "options(error = quote(q('no', status = 3)))",
			"recover":                 "options(error = recover)",
			"warnings that are fatal": fmt.Sprintf("options(warn = 2, error = quote(%s))", handler("option")),
			"global handlers": fmt.Sprintf("globalCallingHandlers(error = function(e) %s, warning = function(w) %s, message = function(m) %s)",
				handler("error"), handler("warning"), handler("message")),
		} {
			t.Run("runs nothing with "+name, func(t *testing.T) {
				w := startWorker(t, workerSetup{})
				w.RunCode("d <- new.env(); class(d) <- 'bad'; registerS3method('.DollarNames', 'bad', function(x, pattern) { warning('w'); message('m'); stop('e') }); f <- function(odd) 1\n" +
					"`\\xff` <- structure(1, class = c('a\\xffb'))\nEncoding(o <- 'a\\xff') <- 'bytes'; odd <- structure(1, class = o)")
				w.RunCode("options(warning.length = 900L)\n" + code)
				for text, want := range map[string]ipc.QueryStatus{
					`"\s"`: ipc.StatusInvalid, `'\u{zz}'`: ipc.StatusInvalid, "x <- = 1": ipc.StatusInvalid, "_a": ipc.StatusInvalid,
					"1.5L": ipc.StatusComplete, "1 + 1": ipc.StatusComplete, "f(": ipc.StatusIncomplete, "'a": ipc.StatusIncomplete,
					"r\"(": ipc.StatusIncomplete, "x |> 2": ipc.StatusInvalid,
				} {
					if got := runQuery(t, w, ipc.QueryParse, text); got.Status != want {
						t.Errorf("%q: got %s, want %s", text, got.Status, want)
					}
				}
				for _, text := range []string{"d$", "d$a$", "nothing$b", "f(", "d[['", "`", "stop(", "d@", "?"} {
					runQuery(t, w, ipc.QueryComplete, text)
					runQuery(t, w, ipc.QueryInspect, text)
				}
				runQuery(t, w, ipc.QueryVariables, "")
				w.RunCode("x <- 5; x").WantOutput(t, "[1] 5\n")
				if got, err := os.ReadFile(log); err == nil {
					t.Errorf("handlers ran: %q", got)
				}
			})
		}
	})

	// Completion and help do not evaluate the user's promises, bindings and methods.
	t.Run("evaluates no promises, bindings or methods", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode(`ran <- character(); note <- function(x) { ran <<- c(ran, x); x }
delayedAssign('lazy', note(list(alpha = 1))); makeActiveBinding('act', function() note(list(beta = 2)), globalenv())
delayedAssign('lazyf', note(function(first) 1)); delayedAssign('gen.lazy', note(function(x, third) 1)); gen <- function(x, ...) UseMethod('gen')
obj <- structure(list(gamma = 1, inner = list(x = 1)), class = 'own')
` + "`$.own` <- function(x, name) note(name); `[[.own` <- `$.own`; names.own <- function(x) note('names'); length.own <- function(x) note(9L); dim.own <- function(x) note(NULL)" + `
print.function <- function(x, ...) note('print')
e <- new.env(); delayedAssign('slow', note(list(k = 1)), assign.env = e); makeActiveBinding('live', function() note(list(l = 1)), e); e$plain <- list(deep = list(deeper = 1))
f <- function(one, two = 3) 1; setClass('P', representation(width = 'numeric')); p <- new('P', width = 1); makeActiveBinding('quits', function() quit('no'), globalenv())
said <- structure(list(), class = 'said'); .DollarNames.said <- function(x, pattern) grep(pattern, c('asked', 'other'), value = TRUE); fl <- setRefClass('A', fields = list(field = 'numeric'))$new()`)
		for text, want := range map[string]string{
			"lazy$": "[]", "act$": "[]", "lazy[['": "[]", "act[['": "[]", "lazyf(fi": "", "gen(x, th": "[]", "e$slow$": "[]", "e$live$": "[]",
			"obj$": "[obj$gamma obj$inner]", "obj$inner$": "[obj$inner$x]", "obj[['": "[gamma inner]", "e$": "[e$live e$plain e$slow]",
			"e$plain$deep$": "[e$plain$deep$deeper]", "f(tw": "[two=]", "p@": "[p@width]", "fl$fie": "[fl$field]", "said$as": "[said$asked]", "quits(": "", "quits$": "[]", "mtcars$cy": "[mtcars$cyl]",
		} {
			got := runQuery(t, w, ipc.QueryComplete, text)
			if s := fmt.Sprint(got.Matches); want != "" && s != want {
				t.Errorf("%q: got %s, want %s", text, s, want)
			}
			runQuery(t, w, ipc.QueryInspect, text)
		}
		for _, name := range []string{"lazy", "act", "lazyf", "obj", "e", "p", "fl", "f"} {
			runQuery(t, w, ipc.QueryInspect, name)
		}
		runQuery(t, w, ipc.QueryVariables, "")
		w.RunCode("ran").WantOutput(t, "character(0)\n")
	})
}
