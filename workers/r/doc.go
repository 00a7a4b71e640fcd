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
//
// # Plots
//
// A plot is a page of a png() device that writes one file for each page. A finished page is sent as R
// wrote it. For the open page, a forked child closes the device, before text is printed and before
// the session waits for input. A replay of its display list would run recorded code again: drawings
// with random numbers would look different, and the user's next random numbers would change. A
// graphics device in C would have to follow R's versions and draw every primitive. On Windows, which
// has no fork, the list is replayed and the random numbers are restored. A page that text follows
// costs about 10 ms, and the fork about 10 ms for each GB of the session.
//
// # Plots and child programs
//
// A child program writes to the terminal itself, so its output could come before an earlier plot. R
// has no hook before it starts a child. So from the first drawing on, system, system2 and pipe first
// send new drawings. A fork handler is too late: it runs while a child starts, where no R code may
// run, and system(3) does not call it. A check before each line of the input is right only between
// lines. Programs that a package starts in its own C code are not covered.
//
// # Windows
//
// The worker is the user's own Rterm.exe --ess, into which boot.R loads the shim as a DLL. The shim
// takes over the console with R_DefParamsEx and R_SetParams, which R exports for embedding, and
// first checks that their struct has the known layout. A host program that links R.dll would need
// Rterm's manifest, PATH and stack of 64 MB. R would call itself "unknown" there, where packages
// expect RTerm. The shim looks up each function by its name. With an import library, Windows would
// refuse the whole DLL for one missing function, without naming it. The oldest version is R 4.2,
// the first that uses UTF-8 there.
//
// # Errors of rlang
//
// rlang, and so the tidyverse, prints an error itself and then raises one without a message. So a
// global calling handler for the class rlang_error gets the message, and each end of a turn has one.
// A handler for all errors would also run when memory is exhausted: its call fails, and R gives the
// error up with "no more error handlers available". If inputs ran in withCallingHandlers, as in
// knitr, every traceback would show frames of the worker. The last error that rlang keeps is internal
// to it.
package r
