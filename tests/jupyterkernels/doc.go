// Package kernels tests real Jupyter kernels as languages, in sessions and by the checks for workers.
package jupyterkernels
