package cmdkit

// exitStatusMask has all 32 bits of an exit status (Microsoft, GetExitCodeProcess). Programs use
// them: an installer that wants a restart ends with 3010, a crash with an NTSTATUS.
const exitStatusMask = 0xffffffff
