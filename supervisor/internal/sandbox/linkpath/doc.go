// Package linkpath inspects paths that a session may have prepared. It finds which links a path
// contains, who could replace a name, and what a settings file contains.
//
// A session can put a link, a pipe or a large file anywhere that it writes. So the package lists
// the links of a path, and reads only regular files of bounded size. Its answers are true only for
// the moment, and it decides nothing by them. It starts no goroutines.
package linkpath
