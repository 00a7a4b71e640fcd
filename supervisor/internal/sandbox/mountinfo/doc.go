// Package mountinfo reads the mounts of the system, and finds the other paths at which they show a
// directory or a part of it. It mounts nothing, knows no session, and starts no goroutines. Only
// Linux lists mounts; on other systems the list is empty.
package mountinfo
