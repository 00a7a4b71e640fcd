// Package jupytercmd has the command repl jupyter, which offers sessions as Jupyter kernels. It
// also has the hidden command repl kernel-worker, which runs a Jupyter kernel as a worker. The
// packages below cmd/internal/jupyter implement the protocol of Jupyter. The package starts no
// goroutines.
package jupytercmd
