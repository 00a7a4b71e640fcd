// Package jupyterkernels tests real Jupyter kernels as languages, in sessions and by the conformance
// checks for workers.
package jupyterkernels
