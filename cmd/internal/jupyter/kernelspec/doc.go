// Package specs finds the Jupyter kernels that are installed: their kernelspecs, in the order of
// "jupyter --paths", and the commands that start them. It starts nothing.
//
// The outside facts are those of jupyter_core 5's paths.py and jupyter_client 8.10's kernelspec.py
// and manager.py.
package kernelspec
