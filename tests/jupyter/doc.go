// Package jupyter drives the built command as a kernel of Jupyter, with jupyter_client,
// jupyter_kernel_test, nbclient and papermill, and compares it with ipykernel and IRkernel.
// scripts/setup-dev installs them. The clients are scripts in Python beside the tests.
package jupyter
