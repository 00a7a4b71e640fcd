// Package escapes holds the list of what a sandbox must hold and must leave working: a
// table of probes, which run in a session as a user without rights.
package escapes
