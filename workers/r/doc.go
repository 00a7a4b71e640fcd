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
// The package starts no goroutines and keeps no state.
package r
