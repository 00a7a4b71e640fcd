// Package chartlib reads the JavaScript libraries that draw charts, such as plotly.js, from the
// packages in the user's own environment. It releases only files that are public already:
//
//	r := chartlib.NewScriptReader()
//	script, err := r.Read(ctx, "/…/site-packages/plotly/package_data/plotly.min.js")
//	fmt.Println(script.Release, len(script.Code))
//
// # Published builds
//
// The code of a session names the file, so the path may lead anywhere, also out of its sandbox.
// Therefore nothing of a file leaves this package unless its SHA-256 is in releases.txt, the list
// of the published builds of about three years. Package generate writes that list.
//
// A file is read whole for each answer that contains bytes of it. So bytes are never released for a
// check of an earlier file of that name. Only the digest is kept, by path, size and time.
//
// Any goroutine may use a ScriptReader. At most maxReads files are read at once.
package chartlib
