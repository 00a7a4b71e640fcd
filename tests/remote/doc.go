// Package places holds the tests of far places by the engines that people have: sshd, Slurm,
// podman and kubectl with the kubelet's own server of commands. Run them with tests/remote/run.
// Everything is on this machine: far is what a command prefix leads to.
package remote
