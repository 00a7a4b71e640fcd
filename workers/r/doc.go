// Package r starts R workers: it finds the R that a user would expect ([Find]) and describes how to
// start it ([Spec]).
//
// The worker is the user's own R, 4.0 or newer, started as the user would start it. Our
// code for it is in src. boot.R is sourced while R starts, and loads the shim: a shared library
// that replaces R's console and speaks the worker protocol. worker.R is the part that is written
// in R. The shim needs neither R's headers nor a certain version of the C
// library. So for common systems it is embedded as a binary, built by go generate;
// elsewhere it is compiled once.
//
// # Input lines that answer prompts
//
// R reads code and answers from one place. After name <- readline("Name? ") the next line of an
// input is the answer, as at any terminal, and inputs with scan() and its data rely on that. So a
// prompt gets the next line, and a notice names the line, because a model would not see that it is
// gone. Secrets, and prompts that options(error) starts, get no lines. Withholding lines from all
// prompts was rejected: such inputs would stop working. Whether R's loop or a program asks is
// decided by the loop's report that it is idle, and by the address of the prompt. The text of the
// prompt alone was rejected, since a program may use the browser's text.
//
// # Windows
//
// The worker has run under Wine only, with a cross-built R. These points are unproven:
//
//   - CRAN's own build, with cairo and its manifest for UTF-8: Wine ignores that code page, so tests
//     set LC_CTYPE, and names with letters beyond ASCII are errors
//   - loading the unsigned shim where AppLocker or an antivirus program watches
//   - the order of children's text among R's on a real console
//   - a user's directory whose name has letters beyond ASCII
//
// Windows cannot fork. So a plot that is shown before its page ends is drawn twice, and code that
// runs while it is drawn, such as makeContent methods, runs twice. Random numbers are unaffected.
//
// The package starts no goroutines and keeps no state.
package r
