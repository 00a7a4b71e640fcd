// Package render turns the events of a session into the text and the images that a model reads,
// within a budget. It folds repetitions and shortens text that readers skip, such as the frames of
// a traceback. It says what it left out and where to find that.
//
// It does not know where the events come from, and reads no files. It starts no goroutines.
//
// # Folding
//
// A model pays for every character of a reply, and pays again with each later message. Three
// quarters of an error in json.loads are library frames, and a loop that prints two lines fifty
// times costs a hundred lines. So a rendering folds repeated groups of lines, and also library
// frames with Options.FoldFrames. The log and its files keep everything. Text that only looks like
// a traceback may be folded as well.
//
// Shorter tracebacks from the worker, by sys.tracebacklimit, were rejected. The file would lack the
// frames, too, and code that prints a traceback itself would not be covered. Asking the worker
// which files are libraries was rejected, because its session may have ended.
package render
