// Package r starts R workers: it finds the R that a user would expect ([Find]) and describes how to
// start it ([Spec]).
//
// The worker is the user's own R, 4.0 or newer, started as the user would start it. Our code for it
// is in src. R sources boot.R while it starts. boot.R loads the shim, a shared library that
// replaces R's console and speaks the worker protocol. worker.R is the part that is written in R.
// The shim needs neither R's headers nor a certain version of the C library. So for common systems
// it is embedded as a binary, built by go generate. Elsewhere it is compiled once.
//
// The package starts no goroutines and keeps no state.
//
// # Input lines that answer prompts
//
// R reads code and answers from one place. After name <- readline("Name? ") the next line of an
// input is the answer, as at any terminal. Inputs with scan() and its data rely on that. So a
// prompt gets the next line. A notice names the line, because a model would not see that it is
// gone. Secrets, and prompts that options(error) starts, get no lines. Withholding lines from all
// prompts was rejected: such inputs would stop working.
//
// The worker must know whether R's loop or a program asks. It decides by the loop's report that it
// is idle, and by the address of the prompt. The text of the prompt alone was rejected, because a
// program may use the same text as R's debugger.
//
// # Plots
//
// A plot is a page of a png() device that writes one file for each page. The worker sends a
// finished page as R wrote it. For the open page, a forked child closes the device, before text is
// printed and before the session waits for input. A page that is followed by text costs about 10
// ms, and the fork about 10 ms for each GB of the session.
//
// A device stays open over inputs, so that lines() can add to a plot. In a notebook, the end of a
// cell closes it, as in IRkernel. Otherwise a later cell would change the picture of an earlier one
// and show nothing itself, for example after par(mfrow = c(1, 2)).
//
// Replaying the page's display list was rejected, because it runs recorded code again. Drawings
// with random numbers would look different, and the user's next random numbers would change. Where
// R cannot fork, as on Windows, the list is replayed all the same, and the random numbers are
// restored. Code that runs during a drawing, such as makeContent methods, then runs twice. A
// graphics device in C was rejected: it would have to follow R's versions and draw every primitive.
//
// # Plots and child programs
//
// A child program writes to the terminal itself, so its output could appear before an earlier plot.
// R has no hook before it starts a child. So after the first drawing, the functions system, system2
// and pipe send new drawings before they start a child. Programs that a package starts in its own C
// code are not covered.
//
// A fork handler was rejected: it runs while a child starts, where no R code may run, and system(3)
// does not call it. A check before each line of the input was rejected, because it is right only
// between lines.
//
// # Errors of rlang
//
// rlang, and so the tidyverse, prints an error itself and then raises one without a message. So a
// global calling handler for the class rlang_error gets the message, and each turn that ends in
// such an error reports it.
//
// A handler for all errors was rejected, because it would also run when memory is exhausted. Its
// call then fails, and R gives the error up with "no more error handlers available". Running inputs
// in withCallingHandlers, as knitr does, was rejected, because every traceback would show frames of
// the worker. The last error that rlang keeps was rejected as a source, because it is internal to
// rlang.
//
// # Windows
//
// The worker is the user's own Rterm.exe --ess, into which boot.R loads the shim as a DLL. The shim
// takes over the console with R_DefParamsEx and R_SetParams, which R exports for embedding. It
// first checks that their struct has the known layout. It looks up each function by its name. The
// oldest version is R 4.2, the first that uses UTF-8 there.
//
// A host program that links R.dll was rejected. It would need Rterm's manifest, PATH and stack of
// 64 MB, and R would call itself "unknown", where packages expect RTerm. An import library was
// rejected: for one missing function, Windows would refuse the whole DLL without naming the
// function.
//
// # Unproven on Windows
//
// The worker has run under Wine only, with a cross-built R. These points are unproven:
//
//   - CRAN's own build, with cairo and its manifest for UTF-8: Wine ignores that code page. So tests
//     set LC_CTYPE, and names with letters beyond ASCII are errors
//   - loading the unsigned shim where AppLocker or an antivirus program watches
//   - the order of children's text among R's on a real console
//   - a user's directory whose name has letters beyond ASCII
package r
