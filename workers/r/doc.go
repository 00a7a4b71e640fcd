// Package r starts R workers: it finds the R a person would expect ([Find]) and
// describes how to start it ([Spec]).
//
// The worker is the user's own R, 4.0 or newer, started as the user would start
// it. Its part of us comes from src: boot.R is sourced while R starts, and loads
// the shim, a shared library that takes the place of R's console and speaks the
// worker protocol; worker.R is the part that is written in R. The shim needs no
// header of R and no version of the C library, so for the usual systems it is
// embedded as a binary, made by go generate, and elsewhere it is compiled once.
//
// The package starts no goroutines and keeps no state.
package r
