// Package timeline records the events of a session, in order and within bounds, and
// renders them as text.
//
// A [Log] takes events from any goroutine and numbers them. It keeps the newest in
// memory. With a directory, it also writes all of them to two files: "events", which
// serves readers that fall behind, and "output.txt", the text as lines for people and
// their tools. [Log.Follow] yields past and new events in one stream, [Log.Window] the
// beginning and the end of long output, and [Render] turns events into text.
//
// The package decides nothing by what an event says: it records turns, waits and workers. Only
// [Render] looks into text, to shorten what readers skip, such as the frames of a traceback, and
// into the data of charts, to name them. [ReadFile] reads the log of a program that was killed.
//
//	l, err := timeline.New(&timeline.Options{Dir: dir})
//	...
//	l.Append(timeline.Event{Turn: 1, Body: timeline.Text{Data: []byte("2\n")}})
//	events := l.Window(cursor, 64<<10, 64<<10)
//	view := timeline.Render(events, &timeline.RenderOptions{OutputPath: l.OutputPath()})
//	fmt.Print(view.Text())
//
// # Bounds
//
//	what                bound                       when it is reached
//	memory of a Log     Options.MemoryBytes         oldest events leave memory
//	events not written  Options.MemoryBytes         Append waits up to 2 s, then files off and a Notice
//	each file           Options.FileBytes           both begin anew; output.txt says so in its first line
//	index of the files  1 entry per 64 KiB          -
//	outline             16384 turns                 older ones are made from the file
//	blobs               1 entry per 4 KiB of data   -
//	Read                its Span; 64 MiB of file    the next part has the rest
//	unfinished line     64 KiB                      goes on, but \r no longer reaches its beginning
//	secrets             4 KiB a line, 16 KiB        longer, more and tiny ones are shown; Hide says so
//	what a follower has 256 events                  events come from the file, or as a Gap
//	Window              its arguments, 200 events   Elided, Gap
//	Render              RenderOptions.MaxChars      one line names what is elided
//
// A write error, a full disk above all, turns the files off with one Notice;
// everything else goes on in memory. A reader gets a [Gap] for events that it missed.
//
// # Goroutines
//
//	name    started by             ends when                             owns
//	writer  New, if Dir is given   Close; the files are full or off      the two files
//
// Close waits for it, 2 s at most. It wakes when 256 KiB are waiting to be
// written, 100 ms after the first event that waits, and for Sync; never in an idle
// log.
package timeline
