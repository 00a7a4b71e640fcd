package cmdkit

// exitStatusMask has all 32 bits of an exit status (Microsoft, GetExitCodeProcess). Programs use
// them: an installer that needs a restart exits with 3010, and a crashed program with an NTSTATUS.
const exitStatusMask = 0xffffffff
