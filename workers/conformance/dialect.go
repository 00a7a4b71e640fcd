package conformance

import "strconv"

// A Dialect contains the code, in the worker's language, that the checks run. Checks whose
// snippet is nil or "" are skipped. Snippets are joined with newlines.
type Dialect struct {
	Print func(text string) string    // prints text and a newline to standard output
	Ask   func(prompt string) string  // reads a line with this prompt, and prints it
	Shell func(command string) string // runs a shell command on the terminal

	Call func(text string) string // calls conform(text), a host function, and prints the text that it returns

	// Group calls con-form(text), a host function in the group birds, and prints the text that it
	// returns. It does so like code that has not used the group before.
	Group func(text string) string

	Error string // ends the turn with an error of the language
	Sleep string // sleeps for an hour
	Loop  string // computes forever
	Exit  string // ends the session with exit status 3

	Whole   string // a complete input
	Partial string // an input that more lines can complete
	Broken  string // an input that no more lines can make valid

	Word  string // the beginning of a name
	Match string // one of its completions

	Define   string // makes a variable
	Variable string // its name
}

// PythonDialect returns the dialect of Python 3.
func PythonDialect() Dialect {
	quote := strconv.QuoteToASCII // a Go literal without \U escapes is also a Python literal
	return Dialect{
		Print: func(text string) string { return "print(" + quote(text) + ")" },
		Ask:   func(prompt string) string { return "print(input(" + quote(prompt) + "))" },
		Shell: func(command string) string { return "import os; _ = os.system(" + quote(command) + ")" },
		Call:  func(text string) string { return "import turnstone; print(turnstone.conform(" + quote(text) + "))" },
		Group: func(text string) string {
			return "from turnstone.tools import birds; print(birds[\"con-form\"](" + quote(text) + "))"
		},
		Error:   "1/0",
		Sleep:   "import time; time.sleep(3600)",
		Loop:    "while True: pass",
		Exit:    "import sys; sys.exit(3)",
		Whole:   "x = 1",
		Partial: "for x in y:",
		Broken:  "x = = 1",
		Word:    "impor",
		Match:   "import",

		Define:   "answer = 42",
		Variable: "answer",
	}
}

// RDialect returns the dialect of R.
func RDialect() Dialect {
	quote := strconv.QuoteToASCII // R supports all of Go's escapes
	return Dialect{
		Print:   func(text string) string { return "writeLines(" + quote(text) + ")" },
		Ask:     func(prompt string) string { return "writeLines(readline(" + quote(prompt) + "))" },
		Shell:   func(command string) string { return "invisible(system(" + quote(command) + "))" },
		Call:    func(text string) string { return "writeLines(turnstone$conform(" + quote(text) + "))" },
		Group:   func(text string) string { return "writeLines(turnstone$tools$birds$con_form(" + quote(text) + "))" },
		Error:   "stop('no')",
		Sleep:   "Sys.sleep(3600)",
		Loop:    "repeat {}",
		Exit:    "quit(status = 3)",
		Whole:   "x <- 1",
		Partial: "f(",
		Broken:  "x <- <- 1",
		Word:    "prin",
		Match:   "print",

		Define:   "answer <- 42",
		Variable: "answer",
	}
}
