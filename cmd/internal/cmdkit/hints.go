package cmdkit

// These commands are named in messages of other commands.
const (
	RecoverCommand = "repl recover" // recovers a crashed session
	FilesCommand   = "repl files"   // fetches a file of a session
)

// RecoverHint says what RecoverCommand does, for messages that cannot name a file.
const RecoverHint = "writes its inputs, and with --format text also its output"

// Descriptions of flags that several commands share.
const (
	SocketUsage     = "`PATH` the daemon's socket; default TURNSTONE_SOCKET, or the socket of your daemon on this host"
	CodeUsage       = "`CODE` run this code; several -e are the lines of one program"
	WithUsage       = "`PACKAGE` make a package available to this session only, named as for pip or install.packages; may be repeated"
	SessionDirUsage = "`DIR` where transcripts are kept while sessions live"
	WorkerUsage     = "`COMMAND` add a language: NAME=COMMAND starts a program that speaks the worker protocol"
	OutputUsage     = "`FILE` write to this file instead of standard output"
)
