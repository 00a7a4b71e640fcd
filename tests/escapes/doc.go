// Package escapes tests what a sandbox must prevent and what must keep working in it: a table of
// probes that run in a session as an unprivileged user.
package escapes
