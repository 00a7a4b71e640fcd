// Package mountinfo reads the mounts of the system, and finds the other paths at which they show a
// directory or a part of it.
package mountinfo
