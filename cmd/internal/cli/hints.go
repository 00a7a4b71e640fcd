package cli

// Commands that messages name, so that a group of commands can refer to another.
const (
	recoverCommand = "repl recover" // recovers a crashed session
	filesCommand   = "repl files"   // fetches a file of a session
)

// recoverHint says what recoverCommand does where no file can be named.
const recoverHint = "writes its inputs, and with --format text also its output"

// Descriptions of flags that several commands share.
const (
	socketUsage     = "`PATH` the daemon's socket; default TURNSTONE_SOCKET, or the socket of your daemon on this host"
	codeUsage       = "`CODE` run this code; several -e are the lines of one program"
	withUsage       = "`PACKAGE` make a package available to this session only, named as for pip or install.packages; may be repeated"
	sessionDirUsage = "`DIR` where transcripts are kept while sessions live"
	workerUsage     = "`COMMAND` add a language: NAME=COMMAND starts a program that speaks the worker protocol"
	outputUsage     = "`FILE` write to this file instead of standard output"
)

// A completionItem holds a possible completion and its description. The words :files and :dirs tell
// the shell to add files or directories.
type completionItem struct{ word, description string }
