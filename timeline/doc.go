// Package timeline records the events of a session, in order and within bounds.
//
// A [Log] takes events from any goroutine and numbers them. It keeps the newest in memory. With a
// directory, it also writes all of them to two files. "events" serves readers that fall behind, and
// "output.txt" holds the text as lines, for users and their tools. [Log.Follow] yields past and new
// events in one stream, and [Log.Window] the beginning and the end of long output. Package
// timeline/render turns events into the text and images that a model reads.
//
// The package records turns, input requests and workers without acting on them, and does not know
// who reports them. Four internal packages do parts of the work. Package event declares the events;
// [Event] and its bodies have their public names here. Package store has the two files. Package
// screen turns bytes into lines, package redact replaces secrets, and package describe describes
// charts in text. The last three know no events. [ReadFile] reads the log of a program that was
// killed.
//
//	l, err := timeline.New(&timeline.Options{Dir: dir})
//	...
//	l.Append(timeline.Event{Turn: 1, Body: timeline.Text{Data: []byte("2\n")}})
//	events := l.Window(cursor, 64<<10, 64<<10)
//	fmt.Print(render.Events(events, &render.Options{OutputPath: l.OutputPath()}).Text())
//
// # Full files
//
// When one file is full, both are emptied and start over. Events that are in neither a file nor
// memory become a [Gap].
//
// Keeping the oldest output was rejected. A session that once filled a file would have none for
// later output, which is what users look for. A ring in the file, or holes punched into its
// beginning, was rejected: offsets would move or zero bytes remain, and systems differ. Several
// files were rejected, because the index, the line numbers and every reader would have to know of
// each.
//
// # Bounds
//
//	what                bound                       when it is reached
//	memory of a Log     Options.MemoryBytes         oldest events leave memory
//	events not written  Options.MemoryBytes         Append waits up to 2 s, then the files are turned off, with a Notice
//	each file           Options.FileBytes           both start over; output.txt says so in its first line
//	index of the files  1 entry per 64 KiB          -
//	turn index          16384 turns                 older summaries are rebuilt from the file
//	blobs               1 entry per 4 KiB of data   -
//	Read                its range; 64 MiB of file   the next Read has the rest
//	unfinished line     64 KiB                      continues, but \r no longer reaches its start
//	secrets             4 KiB a line, 16 KiB        others are shown; AddSecret returns an error
//	batch of a follower 256 events                  events come from the file, or as a Gap
//	Window              its arguments, 200 events   Omitted, Gap
//
// A write error, most often a full disk, turns the files off with one Notice. Everything else
// continues in memory. A reader gets a [Gap] for events that it missed.
//
// # Goroutines
//
//	name    started by             ends when                             owns
//	writer  New, if Dir is given   Close; the files are full or off      the two files
//
// Close waits for the writer, 2 s at most. The writer wakes when 256 KiB are waiting to be written,
// 100 ms after the first unwritten event, and for Sync. It does not wake while the log is idle.
package timeline
