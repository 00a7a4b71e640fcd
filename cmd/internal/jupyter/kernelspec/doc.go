// Package kernelspec finds the installed Jupyter kernels: their kernelspecs, in the order of
// "jupyter --paths", and the commands that start them. It starts nothing.
//
// The facts about Jupyter are from jupyter_core 5's paths.py and from jupyter_client 8.10's
// kernelspec.py and manager.py.
package kernelspec
