// Package remote tests remotes through the transports that people use: sshd, Slurm, podman, and
// kubectl with the kubelet's own command server. Run the tests with tests/remote/run. Command
// prefixes stand for the other machines, so everything runs on this one.
package remote
