// Package vt keeps the screen of a terminal as text, and answers what programs ask a terminal.
//
// The supervisor writes the output of a session's programs to an [Emulator]. It then shows what they have
// drawn, sees which entry of a menu is chosen, and whether a program shows what was typed. Programs
// such as prompt_toolkit, fish and bubbletea also ask the terminal for its cursor, its colors or its
// kind. They stand still for seconds if nobody answers.
//
// Package timeline/internal/screen is different. It turns the whole output into lines that are read
// later: it can rewrite only the last line, forgets no line, and drops the movements of full-screen
// programs. This package has rows and columns, and forgets what has scrolled off the top.
//
// # Newlines
//
// A kernel usually turns each newline of a program into CR LF (the modes OPOST and ONLCR). The terminals
// of sessions have OPOST off, so the screen must do it. The caller decides it from the modes, and tells
// [Emulator.SetReturnOnNewline]:
//
//   - A newline returns while ONLCR is on. Shells, cbreak, readline, prompt_toolkit, textual and Node.js
//     leave it on, and need it.
//   - It does not return while ONLCR is off: curses, vim and nano.
//   - It does not return after cfmakeraw either, which clears OPOST: bubbletea v2 goes down with a
//     newline and stays in its column. OPOST is off already, so the sign is that ISIG and IGNBRK are
//     both off, if IGNBRK was on at the start. Others that clear ISIG leave IGNBRK alone.
//   - It does not matter while a program has set OPOST itself (less). The kernel has added the CR.
//
// # Answers
//
// These questions are answered, and no answer contains bytes of a program:
//
//	CSI 5 n, CSI 6 n, CSI ? 6 n   the status, and the cursor's position
//	CSI c, CSI > c, ESC Z         primary and secondary device attributes
//	CSI Ps $ p, CSI ? Ps $ p      whether a mode is set (DECRQM)
//	CSI 18 t                      the size in characters
//	OSC 10 ; ?, OSC 11 ; ?        the colors of text and background
//
// Silence is the answer of many terminals to other questions: the kitty keyboard protocol, XTVERSION,
// XTGETTCAP, DECRQSS, pixel sizes, and titles. Programs send CSI c or CSI 6 n after them, and take an
// answer to that as the end.
//
// # Bounds
//
// The memory of a screen depends on its size only, and the size is bounded. Each byte costs at most one
// change of the whole screen, because every count is cut at the size of the screen. Sequences of more
// than 4 KiB are dropped.
package vt
