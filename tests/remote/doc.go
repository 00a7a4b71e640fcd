// Package remote tests remotes through the transports that people use: sshd, Slurm, podman, and
// kubectl with the kubelet's own command server. Run the tests with tests/remote/run. Everything
// runs on this machine, behind command prefixes.
package remote
