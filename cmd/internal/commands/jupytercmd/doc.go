// Package jupytercmd has the command repl jupyter, which offers sessions as kernels of Jupyter, and
// the hidden command that is the worker of a kernel. The packages below cmd/internal/jupyter
// implement the protocol of Jupyter. The package starts no goroutines.
package jupytercmd
