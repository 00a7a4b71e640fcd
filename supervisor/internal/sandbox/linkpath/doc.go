// Package linkpath asks the filesystem about paths that a session may have prepared: which links are on
// the way, who could replace a name, and what a settings file says.
//
// A session can put a link, a pipe or a large file anywhere that it writes. So the links of a path are
// listed, and only regular files of bounded size are read. The answers hold for the moment: the package
// decides nothing by them. It starts no goroutines.
package linkpath
