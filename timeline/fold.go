package timeline

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxPeriod bounds the lines of a repeated group.
const maxPeriod = 4

// minGroups is the number of equal groups from which on they are collapsed.
const minGroups = 4

// foldPeriods replaces groups of two to maxPeriod lines that repeat by the first one
// and a note.
func (r *renderer) foldPeriods(rows []row) []row {
	var out []row
	for i := 0; i < len(rows); {
		lines, times := r.period(rows[i:])
		if times < minGroups {
			out = append(out, rows[i])
			i++
			continue
		}
		end := i + lines*times
		out = append(out, rows[i:i+lines]...)
		out = append(out, row{
			kind:   noteRow,
			times:  1,
			cut:    fmt.Sprintf("… these %d lines %d times in all", lines, times),
			elided: sum(rows[i+lines : end]),
		})
		i = end
	}
	return out
}

// period finds the shortest group that stands at least minGroups times at the start of
// rows. It returns the group's length and the number of times, or 0 and 0.
func (r *renderer) period(rows []row) (lines, times int) {
	for lines = 2; lines <= min(maxPeriod, len(rows)/minGroups); lines++ {
		n := lines // rows that equal those one group before, and the first group
		for n < len(rows) && r.same(&rows[n-lines], &rows[n]) {
			n++
		}
		if times = n / lines; times >= minGroups {
			return lines, times
		}
	}
	return 0, 0
}

func (r *renderer) same(a, b *row) bool {
	return a.kind == textRow && b.kind == textRow && a.stream == b.stream && a.times == b.times &&
		string(r.rowText(a)) == string(r.rowText(b))
}

// sum returns the elision of rows.
func sum(rows []row) (e elision) {
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i].kind == noteRow {
			e.extend(rows[i].elided)
		} else {
			e.extend(rows[i].lines())
		}
	}
	return e
}

// The code below knows how CPython prints a stack. It only decides which lines a reader
// is spared. Nothing else depends on it, and the output file has every line.
const (
	tracebackHead = "Traceback (most recent call last):"
	faultHead     = "(most recent call first):"
	workerFrame   = `  File "<turnstone_worker/`
)

var (
	callEnd = []byte("):") // the end of both heads

	framePath = regexp.MustCompile(`^  File "([^"]+)", line \d+`)

	// libraryPath matches the paths of Python's own modules and of installed ones.
	libraryPath = regexp.MustCompile(`^(.*/(?:site-packages|dist-packages|lib(?:64)?/python3[.\d]*|Lib|python\d+\.zip)/|<frozen |[^/<].*\.p[yx][xi]$)`)
)

// foldFrames replaces the inner frames of libraries in a traceback by a note. From the
// stack of a fault it also drops the worker's own frames at the bottom.
func (r *renderer) foldFrames(rows []row) []row {
	var out []row
	for i := 0; i < len(rows); {
		text := ""
		if line := r.rowText(&rows[i]); rows[i].kind == textRow && bytes.HasSuffix(line, callEnd) {
			text = string(line)
		}
		before, isTraceback := strings.CutSuffix(text, tracebackHead)
		switch {
		case isTraceback && strings.Trim(before, " |") == "":
			out = append(out, rows[i])
			frames, end := r.frames(rows, i+1, before)
			out = append(out, foldLibraries(frames, before)...)
			i = end
		case strings.HasSuffix(text, faultHead):
			end := i + 1
			for end < len(rows) && r.continues(&rows[i], &rows[end], `  File "`) {
				end++
			}
			stack := rows[i:end]
			if ours := slices.IndexFunc(stack, func(w row) bool { return strings.HasPrefix(string(r.rowText(&w)), workerFrame) }); ours >= 0 {
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

// continues reports whether a row is text of the same stream, and begins so.
func (r *renderer) continues(first, w *row, prefix string) bool {
	return w.kind == textRow && w.stream == first.stream && strings.HasPrefix(string(r.rowText(w)), prefix)
}

// A frame is the rows of one frame of a traceback.
type frame struct {
	rows    []row
	library string // its file within a library; "" for none
}

// frames returns the frames of the traceback that begins at row i, and where it ends.
func (r *renderer) frames(rows []row, i int, prefix string) (frames []frame, end int) {
	head := &rows[i-1]
	for i < len(rows) && r.continues(head, &rows[i], prefix) {
		path := framePath.FindStringSubmatch(strings.TrimPrefix(string(r.rowText(&rows[i])), prefix))
		if path == nil {
			break
		}
		start := i
		for i++; i < len(rows) && (r.continues(head, &rows[i], prefix+"    ") || r.continues(head, &rows[i], prefix+"  [Previous line repeated ")); i++ {
		}
		frames = append(frames, frame{rows[start:i], within(path[1])})
	}
	return frames, i
}

// within returns the path of a file within its library; "" if it is in none.
func within(path string) string {
	if strings.Contains(path, `\`) {
		path = strings.ReplaceAll(path, `\`, "/")
	}
	at := libraryPath.FindStringSubmatch(path)
	switch {
	case at == nil:
		return ""
	case strings.HasSuffix(at[1], "/"):
		return path[len(at[1]):]
	default:
		return path
	}
}

// foldLibraries keeps the first of each run of library frames, which user code called,
// and the last frame of all, which raised the error.
func foldLibraries(frames []frame, prefix string) (out []row) {
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
		var folded []row
		var files []string
		for _, f := range frames[i:end] {
			folded = append(folded, f.rows...)
			files = append(files, f.library)
		}
		out = append(out, row{
			kind:   noteRow,
			stream: folded[0].stream,
			times:  1,
			cut:    fmt.Sprintf("%s  … %s in %s …", prefix, count(end-i, "frame"), places(files)),
			elided: sum(folded),
			lost:   true,
		})
		i = end
	}
	return out
}

// places names one or two files, or the packages of more files.
func places(files []string) string {
	const most = 3
	names := distinct(files)
	if len(names) > 2 {
		for i, name := range names {
			names[i], _, _ = strings.Cut(name, "/")
			names[i] = strings.TrimSuffix(names[i], ".py")
		}
		names = distinct(names)
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

// distinct returns every name once, in order.
func distinct(names []string) (out []string) {
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
