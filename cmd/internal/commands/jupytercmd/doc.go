// Package jupytercmd has the command repl jupyter, which offers sessions as kernels of Jupyter, and
// the hidden command repl kernel-worker, the worker of a kernel. The packages below jupyter
// exchange the messages. The package starts no goroutines.
package jupytercmd
