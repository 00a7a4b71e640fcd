// Package protocol defines the messages of the daemon: the names of its methods, and the params and
// results of each. The daemon and package client share it, and clients/generate writes the types of
// the other clients from it. docs/daemon-protocol.md describes the methods.
package protocol
