//go:build linux || darwin

package r_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/tests/rawworker"
)

// complete asks what may stand at the | in text, and returns the text that the
// matches replace, and them.
func complete(t *testing.T, w *worker, id uint64, text string) (string, []string) {
	t.Helper()
	cursor := strings.Index(text, "|")
	text = text[:cursor] + text[cursor+1:]
	w.Tell(ipc.Query{ID: id, Kind: ipc.QueryComplete, Text: text, Cursor: uint64(cursor)})
	switch e := w.Next().(type) {
	case ipc.QueryResult:
		if e.ID != id || e.Start > uint64(cursor) {
			t.Fatalf("%q: got %+v", text, e)
		}
		return text[e.Start:cursor], e.Matches
	default:
		t.Fatalf("%q: got %+v, want a result and nothing else", text, e)
		return "", nil
	}
}

func TestComplete_FromTheLiveSession(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/some file.csv", "")
	write(t, dir+"/.hidden", "")
	w := start(t, setup{Setup: rawworker.Setup{Dir: dir}})
	w.Run("mydata <- data.frame(alpha = 1, alphabet = 2, `odd name` = 3, check.names = FALSE); `my var` <- 1; e <- new.env(); e$inner <- list(deep = 1)\n" +
		"myfunction <- function(first_arg, second_arg) 1; dir.create('sub')")
	// What a user has masked is no concern of completion.
	w.Run("cat <- 1; c <- function(...) stop('masked'); paste0 <- sprintf <- list <- NULL; T <- FALSE")
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
		{"splines::interpS|", "splines::interpS", "splines::interpSpline"}, // not loaded, and not loaded for this
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
		token, matches := complete(t, w, uint64(i+1), c.text)
		if got := strings.Join(matches, " "); got != c.matches || token != c.token && c.matches != "" {
			t.Errorf("%q: got %q for %q; want %q for %q", c.text, got, token, c.matches, c.token)
		}
	}
	w.Run("isNamespaceLoaded('splines')").Wants(t, "[1] FALSE\n")
	w.Run("utils::rc.settings()[['S3']]").Wants(t, "[1] TRUE\n")
	_, all := complete(t, w, 100, "base::|")
	if len(all) != 200 {
		t.Errorf("%d matches for base::, want the 200 that there may be", len(all))
	}
}

// A question runs nothing that it can avoid, and prints nothing.
func TestComplete_HasNoSideEffects(t *testing.T) {
	w := start(t, setup{})
	w.Run("makeActiveBinding('active', function() { message('RUN'); list(a = 1) }, globalenv())\n" +
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
		if _, matches := complete(t, w, uint64(i+1), c.text); strings.Join(matches, " ") != c.matches {
			t.Errorf("%q: got %q, want %q", c.text, matches, c.matches)
		}
	}
	r := w.Run("ls(); sink.number(); nrow(showConnections()); names(warnings())")
	r.Wants(t, "[1] \"active\" \"broken\" \"loud\"  \n[1] 0\n[1] 0\nNULL\n")
}

// The supervisor gives up after 200 ms.
func TestComplete_IsQuick(t *testing.T) {
	w := start(t, setup{})
	w.Run("library(stats)")
	long := strings.Repeat("x <- c(1, 2) # it's\ny <- 'a(b'\n", 5000)
	var took []time.Duration
	id := uint64(0)
	for _, text := range []string{"mean(x, na|", "print(|", "plot(1, ma|", "s|", long + "summary(mtc|", "library(|", "base::|"} {
		best := rawworker.Patience
		for range 5 { // the first time, R compiles; now and then, a busy machine has R wait
			id++
			begun := time.Now()
			complete(t, w, id, text)
			best = min(best, time.Since(begun))
		}
		took = append(took, best)
	}
	if slowest := slices.Max(took); slowest > time.Second {
		t.Errorf("took %v", took)
	} else {
		t.Logf("took %v", took)
	}
}
