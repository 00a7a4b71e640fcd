//go:build linux || darwin

package r_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/ipc"
)

// queryCompletions completes text at the |, and returns the text that the matches replace, and the
// matches.
func queryCompletions(t *testing.T, w *worker, id uint64, text string) (string, []string) {
	t.Helper()
	cursor := strings.Index(text, "|")
	text = text[:cursor] + text[cursor+1:]
	w.SendMessage(ipc.Query{ID: id, Kind: ipc.QueryComplete, Text: text, Cursor: uint64(cursor)})
	switch e := w.NextEvent().(type) {
	case ipc.QueryResult:
		if e.ID != id || e.Start > uint64(cursor) {
			t.Fatalf("%q: got %+v", text, e)
		}
		return text[e.Start:cursor], e.Matches
	default:
		t.Fatalf("%q: got %+v, want only a result", text, e)
		return "", nil
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()

	t.Run("completes from the live session", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		writeFile(t, dir+"/some file.csv", "")
		writeFile(t, dir+"/.hidden", "")
		w := startWorker(t, workerSetup{WorkerOptions: rawworker.WorkerOptions{Dir: dir}})
		w.RunCode("mydata <- data.frame(alpha = 1, alphabet = 2, `odd name` = 3, check.names = FALSE); `my var` <- 1; e <- new.env(); e$inner <- list(deep = 1)\n" +
			"myfunction <- function(first_arg, second_arg) 1; dir.create('sub')")
		// Completion still works after the user has masked functions that it needs.
		w.RunCode("cat <- 1; c <- function(...) stop('masked'); paste0 <- sprintf <- list <- NULL; T <- FALSE")
		for i, c := range []struct{ text, token, matches string }{
			{"mydata$al|", "mydata$al", "mydata$alpha mydata$alphabet"},
			{"x <- mydata$od|", "mydata$od", "mydata$`odd name`"},
			{"é <- \"ü\"; mydata$alphab| + 1", "mydata$alphab", "mydata$alphabet"},
			{"mydata[['al|", "al", "alpha alphabet"},
			{"e$inner$de|", "e$inner$de", "e$inner$deep"},
			{"my|", "my", "`my var` mydata myfunction"},
			{"myfunction(fir|", "fir", "first_arg="},
			{"myfunction(first_arg = 1, # don't (\n  sec|", "sec", "second_arg="},
			{"myfunction(first_arg = paste(')', \"(\"), sec|", "sec", "second_arg="},
			{"x <- 'it''s'; mydat|", "mydat", "mydata"},
			{"r\"(it's raw)\"; mydat|", "mydat", "mydata"},
			{"stats::weighted.m|", "stats::weighted.m", "stats::weighted.mean"},
			{"splines::interpS|", "splines::interpS", "splines::interpSpline"}, // completed without loading the package
			{"library(spl|", "spl", "splines"},
			{"library(\"spl|", "spl", "splines"},
			{"requireNamespace('spl|", "spl", "splines"},
			{"readLines('some| ", "some", "some file.csv"},
			{"readLines(\"su|", "su", "sub/"},
			{"readLines('./.h|", "./.h", "./.hidden"},
			{"for (i in seq_al|", "seq_al", "seq_along"},
			{"mtcars$dr|", "mtcars$dr", "mtcars$drat"},
			{"plot(1, type|", "type", "type= type.convert typeof"}, // of a method
			{"quantile(1, prob|", "prob", "probs="},                // likewise
			{"?interaction.p|", "?interaction.p", "?interaction.plot"},
			{"# comment mydat|", "", ""},
			{"no_such_thing$|", "no_such_thing$", ""},
			{"'unclosed \" mydat|", "unclosed \" mydat", ""},
			{"mydata|", "mydata", ""},
		} {
			c.text = strings.Replace(c.text, "| ", "|", 1)
			token, matches := queryCompletions(t, w, uint64(i+1), c.text)
			if got := strings.Join(matches, " "); got != c.matches || token != c.token && c.matches != "" {
				t.Errorf("%q: got %q for %q; want %q for %q", c.text, got, token, c.matches, c.token)
			}
		}
		w.RunCode("isNamespaceLoaded('splines')").WantOutput(t, "[1] FALSE\n")
		w.RunCode("utils::rc.settings()[['S3']]").WantOutput(t, "[1] TRUE\n")
		_, all := queryCompletions(t, w, 100, "base::|")
		if len(all) != 200 {
			t.Errorf("%d matches for base::, want the limit of 200", len(all))
		}
	})

	// The name at the cursor is found by R's syntax. R's own completion misreads x[y, 1:y and names with
	// letters outside ASCII. It completes them not at all, or to text that does not parse.
	t.Run("finds the name at the cursor by R syntax", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{WorkerOptions: rawworker.WorkerOptions{Dir: t.TempDir()}})
		w.RunCode("größe <- list(höhe = 1, breite = 2); `my df` <- data.frame(first = 1, fifth = 2); l <- list(a = list(deep = 1), 2)\n" +
			"vec <- c(alpha = 1, beta = 2); mine <- function(zeta, zulu) 1; 数据 <- 1; own <- data.frame(col = 1, `a b` = 2, check.names = FALSE)")
		for i, c := range []struct{ name, text, token, matches string }{
			{"after [", "own[mtc|", "mtc", "mtcars"},
			{"after [[", "own[[mtc|", "mtc", "mtcars"},
			{"of a column after [", "own[own$c|", "own$c", "own$col"},
			{"of a column after a column", "mtcars$cyl[own$c|", "own$c", "own$col"},
			{"alone after [", "LETTERS[|", "", ""},
			{"after a colon", "1:mtc|", "mtc", "mtcars"},
			{"with letters that are not ASCII", "1 + grö|", "grö", "größe"},
			{"of an element with such letters", "größe$h|", "größe$h", "größe$höhe"},
			{"in another script", "数|", "数", "数据"},
			{"in backquotes", "mean(`my d|", "`my d", "`my df`"},
			{"of an element in backquotes", "own$`a|", "own$`a", "own$`a b`"},
			{"of an element of a name in backquotes", "`my df`$fi|", "`my df`$fi", "`my df`$fifth `my df`$first"},
			{"after the name of an element", `l[["a"]]$|`, `l[["a"]]$`, `l[["a"]]$deep`},
			{"after the number of an element", "l[[1]]$d|", "l[[1]]$d", "l[[1]]$deep"},
			{"of an element of a package's value", "datasets::mtcars$cy|", "datasets::mtcars$cy", "datasets::mtcars$cyl"},
			{"of a column in [", `mtcars["cy|`, "cy", "cyl"},
			{"of a column after the rows", `mtcars[1:3, "cy|`, "cy", "cyl"},
			{"of an element of a vector", `vec["al|`, "al", "alpha"},
			{"of nothing, after a call", "head(own)$c|", "", ""},
			{"of nothing, after a string", `paste("a"|`, "", ""},
			{"of nothing, after backquotes", "paste(`my df`|", "", ""},
			{"that nothing has", "base:::.pas|", "", ""},
			{"of a parameter", "own[mine(ze|", "ze", "zeta="},
			{"of a parameter in a package that is only loaded", "tools::file_path_sans_ext(x, compr|", "compr", "compression="},
			{"of a parameter in a package that is not loaded", "splines::bs(x, deg|", "deg", ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				token, matches := queryCompletions(t, w, uint64(i+1), c.text)
				if got := strings.Join(matches, " "); got != c.matches || token != c.token && c.matches != "" {
					t.Errorf("%q: got %q for %q; want %q for %q", c.text, got, token, c.matches, c.token)
				}
			})
		}
		t.Run("of a package in order", func(t *testing.T) {
			_, matches := queryCompletions(t, w, 100, "stats::s|")
			if i := slices.Index(matches, "stats::sd"); i < 0 || i > slices.Index(matches, "stats::step") {
				t.Errorf("got %q", matches)
			}
		})
	})

	// A query runs no code that it can avoid, and prints nothing.
	t.Run("has no side effects", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("makeActiveBinding('active', function() { message('RUN'); list(a = 1) }, globalenv())\n" +
			".DollarNames.loud <- function(x, pattern) { print('PRINTED'); message('TOLD'); warning('WARNED'); grep(pattern, 'quiet', value = TRUE) }\n" +
			".DollarNames.broken <- function(x, pattern) stop('BROKEN')\nloud <- structure(list(), class = 'loud'); broken <- structure(list(), class = 'broken')")
		for i, c := range []struct{ text, matches string }{
			{"active|", "activeBindingFunction"},
			{"active$|", ""},
			{"active[['|", ""},
			{"loud$|", "loud$quiet"},
			{"broken$|", ""},
			{"(function() stop('called'))()$|", ""},
		} {
			if _, matches := queryCompletions(t, w, uint64(i+1), c.text); strings.Join(matches, " ") != c.matches {
				t.Errorf("%q: got %q, want %q", c.text, matches, c.matches)
			}
		}
		r := w.RunCode("ls(); sink.number(); nrow(showConnections()); names(warnings())")
		r.WantOutput(t, "[1] \"active\" \"broken\" \"loud\"  \n[1] 0\n[1] 0\nNULL\n")
	})
}

// The supervisor waits at most 200 ms for completions.
func TestComplete_Time(t *testing.T) {
	w := startWorker(t, workerSetup{})
	w.RunCode("library(stats)")
	long := strings.Repeat("x <- c(1, 2) # it's\ny <- 'a(b'\n", 5000)
	var took []time.Duration
	id := uint64(0)
	for _, text := range []string{"mean(x, na|", "print(|", "plot(1, ma|", "s|", long + "summary(mtc|", "library(|", "base::|"} {
		best := rawworker.Timeout
		for range 5 { // R compiles at the first query, and a busy machine delays R now and then
			id++
			start := time.Now()
			queryCompletions(t, w, id, text)
			best = min(best, time.Since(start))
		}
		took = append(took, best)
	}
	if slowest := slices.Max(took); slowest > time.Second {
		t.Errorf("took %v", took)
	} else {
		t.Logf("took %v", took)
	}
}

// queryVariables returns the variables of the session as text: "name type shape bytes".
func queryVariables(t *testing.T, w *worker, id uint64) (all []string, more uint64) {
	t.Helper()
	w.SendMessage(ipc.Query{ID: id, Kind: ipc.QueryVariables})
	e, ok := w.NextEvent().(ipc.QueryResult)
	if !ok || e.ID != id || e.Status != ipc.StatusOK {
		t.Fatalf("got %+v, want only a result", e)
	}
	for _, v := range e.Variables {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s %d", v.Name, v.Type, v.Shape, v.Bytes)))
	}
	return all, e.More
}

// No user code runs: no active binding, no promise, no method of a class.
func TestVariables(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{})
	w.RunCode(`length.loud <- dim.loud <- format.loud <- print.loud <- names.loud <- function(x) cat('RUN\n')
makeActiveBinding('now', function() cat('RUN\n'), globalenv())
delayedAssign('later', cat('RUN\n'))
loud <- structure(list(1, 2), class = 'loud')
x <- c(1, 2, 3); n <- 1:10; s <- 'text'; m <- matrix(0, 3, 4); a <- array(1L, c(2, 3, 4)); compact <- 1:1e9
d <- data.frame(a = 1:2, b = c(0.5, 1)); l <- list(1, 'b'); e <- new.env(); .hidden <- 1; null <- NULL; q1 <- quote(f(x))
` + "`zz näme` <- TRUE")
	got, more := queryVariables(t, w, 7)
	want := []string{
		"a array (2, 3, 4) 144", "compact integer 1000000000 4000000048", "d data.frame (2, 2) 184", "e environment  0", "l list 2 64", "later promise  0",
		"loud loud 2 64", "m matrix (3, 4) 144", "n integer 10 88", "now active binding  0", "null NULL  0", "q1 call  0", "s character 1 56", "x numeric 3 72", "zz näme logical 1 52",
		"dim.loud function  0", "format.loud function  0", "length.loud function  0", "names.loud function  0", "print.loud function  0",
	}
	if !slices.Equal(got, want) || more != 0 {
		t.Errorf("got  %q, %d more\nwant %q", got, more, want)
	}
	w.RunCode("rm(list = ls()); for (i in 1:250) assign(sprintf('v%03d', i), i); f <- function() 1; long <- structure(1, class = strrep('ü', 200)); rm(i)")
	got, more = queryVariables(t, w, 8)
	if len(got) != 200 || more != 52 || got[0] != "long "+strings.Repeat("ü", 128)+" 1 56" || got[1] != "v001 integer 1 52" {
		t.Errorf("got %d and %d more, first %q", len(got), more, got[:2])
	}
	w.RunCode("'on'").WantOutput(t, "[1] \"on\"\n")
}
