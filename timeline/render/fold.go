package render

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// maxPeriodLines bounds the number of lines in a repeated group.
const maxPeriodLines = 4

// minRepeatedGroups is the number of equal groups that are folded.
const minRepeatedGroups = 4

// foldPeriods folds repeated groups of two to maxPeriodLines lines: the first group stays,
// followed by a note.
func (r *renderer) foldPeriods(rows []renderRow) []renderRow {
	var out []renderRow
	for i := 0; i < len(rows); {
		lines, times := r.findPeriod(rows[i:])
		if times < minRepeatedGroups {
			out = append(out, rows[i])
			i++
			continue
		}
		end := i + lines*times
		out = append(out, rows[i:i+lines]...)
		out = append(out, renderRow{
			kind:        noteRow,
			repeats:     1,
			replacement: fmt.Sprintf("… these %d lines %d times in all", lines, times),
			omitted:     sumOmissions(rows[i+lines : end]),
		})
		i = end
	}
	return out
}

// findPeriod finds the shortest group that occurs at least minRepeatedGroups times at the start
// of rows. It returns the lines of a group and the number of times, or 0 and 0.
func (r *renderer) findPeriod(rows []renderRow) (lines, times int) {
	for lines = 2; lines <= min(maxPeriodLines, len(rows)/minRepeatedGroups); lines++ {
		n := lines // the first group, and all rows that equal the row one group earlier
		for n < len(rows) && r.equalRows(&rows[n-lines], &rows[n]) {
			n++
		}
		if times = n / lines; times >= minRepeatedGroups {
			return lines, times
		}
	}
	return 0, 0
}

func (r *renderer) equalRows(a, b *renderRow) bool {
	return a.kind == textRow && b.kind == textRow && a.stream == b.stream && a.repeats == b.repeats &&
		string(r.rowText(a)) == string(r.rowText(b))
}

// sumOmissions adds up the omissions of rows.
func sumOmissions(rows []renderRow) (e omission) {
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i].kind == noteRow {
			e.prepend(rows[i].omitted)
		} else {
			e.prepend(rows[i].asOmission())
		}
	}
	return e
}

// The code below knows how CPython prints a stack. It only decides which lines readers do not
// need to see. Nothing else depends on it, and the output file has every line.
const (
	tracebackHead     = "Traceback (most recent call last):"
	faultHead         = "(most recent call first):"
	workerFramePrefix = `  File "<turnstone_worker/`
)

var (
	stackHeadEnd = []byte("):") // the end of both heads

	framePath = text.Pattern(`^  File "([^"]+)", line \d+`)

	// libraryPath matches the paths of Python's own modules and of installed ones.
	libraryPath = text.Pattern(`^(.*/(?:site-packages|dist-packages|lib(?:64)?/python3[.\d]*|Lib|python\d+\.zip)/|<frozen |[^/<].*\.p[yx][xi]$)`)
)

// foldFrames replaces the inner frames of libraries in a traceback by a note. From the
// stack of a fault it also drops the worker's own frames at the bottom.
func (r *renderer) foldFrames(rows []renderRow) []renderRow {
	var out []renderRow
	for i := 0; i < len(rows); {
		text := ""
		if line := r.rowText(&rows[i]); rows[i].kind == textRow && bytes.HasSuffix(line, stackHeadEnd) {
			text = string(line)
		}
		before, isTraceback := strings.CutSuffix(text, tracebackHead)
		switch {
		case isTraceback && strings.Trim(before, " |") == "":
			out = append(out, rows[i])
			frames, end := r.readFrames(rows, i+1, before)
			out = append(out, foldLibraries(frames, before)...)
			i = end
		case strings.HasSuffix(text, faultHead):
			end := i + 1
			for end < len(rows) && r.isContinuation(&rows[i], &rows[end], `  File "`) {
				end++
			}
			stack := rows[i:end]
			if ours := slices.IndexFunc(stack, func(w renderRow) bool { return strings.HasPrefix(string(r.rowText(&w)), workerFramePrefix) }); ours >= 0 {
				stack = stack[:ours]
			}
			if len(stack) > 1 || end == i+1 {
				out = append(out, stack...)
			}
			i = end
		default:
			out = append(out, rows[i])
			i++
		}
	}
	return out
}

// isContinuation reports whether a row is text of the same stream and starts with prefix.
func (r *renderer) isContinuation(first, w *renderRow, prefix string) bool {
	return w.kind == textRow && w.stream == first.stream && strings.HasPrefix(string(r.rowText(w)), prefix)
}

// A traceFrame holds the rows of one frame of a traceback.
type traceFrame struct {
	rows    []renderRow
	library string // its file within a library; "" for none
}

// readFrames returns the frames of the traceback that begins at row i, and where it ends.
func (r *renderer) readFrames(rows []renderRow, i int, prefix string) (frames []traceFrame, end int) {
	head := &rows[i-1]
	for i < len(rows) && r.isContinuation(head, &rows[i], prefix) {
		path := framePath().FindStringSubmatch(strings.TrimPrefix(string(r.rowText(&rows[i])), prefix))
		if path == nil {
			break
		}
		start := i
		for i++; i < len(rows) && (r.isContinuation(head, &rows[i], prefix+"    ") || r.isContinuation(head, &rows[i], prefix+"  [Previous line repeated ")); i++ {
		}
		frames = append(frames, traceFrame{rows[start:i], pathInLibrary(path[1])})
	}
	return frames, i
}

// pathInLibrary returns the path of a file within its library; "" if it is not in a library.
func pathInLibrary(path string) string {
	if strings.Contains(path, `\`) {
		path = strings.ReplaceAll(path, `\`, "/")
	}
	at := libraryPath().FindStringSubmatch(path)
	switch {
	case at == nil:
		return ""
	case strings.HasSuffix(at[1], "/"):
		return path[len(at[1]):]
	default:
		return path
	}
}

// foldLibraries keeps the first of each run of library frames, which user code called, and the
// very last frame, which raised the error.
func foldLibraries(frames []traceFrame, prefix string) (out []renderRow) {
	for i := 0; i < len(frames); {
		out = append(out, frames[i].rows...)
		entered := frames[i].library != ""
		i++
		if !entered {
			continue
		}
		end := i
		for end < len(frames)-1 && frames[end].library != "" {
			end++
		}
		if end == i {
			continue
		}
		var folded []renderRow
		var files []string
		for _, f := range frames[i:end] {
			folded = append(folded, f.rows...)
			files = append(files, f.library)
		}
		out = append(out, renderRow{
			kind:        noteRow,
			stream:      folded[0].stream,
			repeats:     1,
			replacement: fmt.Sprintf("%s  … %s in %s …", prefix, text.Count(end-i, "frame"), libraryNames(files)),
			omitted:     sumOmissions(folded),
			isLossy:     true,
		})
		i = end
	}
	return out
}

// libraryNames names up to two files, or the packages if there are more.
func libraryNames(files []string) string {
	const most = 3
	names := uniqueNames(files)
	if len(names) > 2 {
		for i, name := range names {
			names[i], _, _ = strings.Cut(name, "/")
			names[i] = strings.TrimSuffix(names[i], ".py")
		}
		names = uniqueNames(names)
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

// uniqueNames returns the names in order, without duplicates.
func uniqueNames(names []string) (out []string) {
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
