// Package jupyter tests the built command as a Jupyter kernel. It drives the kernel with
// jupyter_client, jupyter_kernel_test, nbclient and papermill, and compares it with ipykernel and
// IRkernel. scripts/setup-dev installs them. The clients are Python scripts next to the tests.
package jupyter
