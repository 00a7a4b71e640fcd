/* The terminal on Unix. R writes its standard output there itself, as always. The shim adds the
 * markers of frames, and those around standard error. */
#include "shim.h"
#ifndef _WIN32

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int terminal = -1; /* a description of our own, which user code cannot reach */
static bool echoes;       /* it did when R started */
static char to_stderr[64], to_stdout[64], to_echo[64], to_begin[64], to_report[64], prefix[48];
static bool echo_on; /* the markers say so; for the main thread */
static bool echo_begins; /* the next text begins the echo; for the main thread */

/* move_high moves fd to a number that user code is unlikely to use, and that select() still
 * accepts. Children do not inherit it. */
int move_high(int fd) {
	static const int lowest[] = {200, 10};
	for (size_t i = 0; i < sizeof lowest / sizeof *lowest; i++) {
		int moved = fcntl(fd, F_DUPFD_CLOEXEC, lowest[i]);
		if (moved >= 0) {
			close(fd);
			return moved;
		}
	}
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

static tcflag_t flags(void) {
	struct termios now;
	return terminal >= 0 && tcgetattr(terminal, &now) == 0 ? now.c_lflag : 0;
}

bool terminal_open(const char *nonce) {
	char name[256];
	if (ttyname_r(0, name, sizeof name) != 0)
		return false;
	/* Not a duplicate: a child that makes its terminal nonblocking makes that one so. */
	int fd = open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		fd = dup(0);
	if (fd < 0)
		return false;
	terminal = move_high(fd);
	echoes = flags() & ECHO;
	snprintf(prefix, sizeof prefix, "\033_%s;", nonce);
	snprintf(to_stderr, sizeof to_stderr, "%sE\033\\", prefix);
	snprintf(to_stdout, sizeof to_stdout, "%sO\033\\", prefix);
	snprintf(to_echo, sizeof to_echo, "%sR\033\\", prefix);
	snprintf(to_begin, sizeof to_begin, "%sB\033\\", prefix);
	snprintf(to_report, sizeof to_report, "%sT\033\\", prefix);
	return true;
}

bool terminal_is_fence(void) { return terminal >= 0; }

int terminal_width(void) {
	enum { DEFAULT_ROWS = 40, DEFAULT_COLUMNS = 120 }; /* the size that the supervisor gives a terminal without a viewer */
	static int seen = -1;
	if (seen < 0) {
		const char *kind = getenv("TERM");
		seen = kind != NULL && strcmp(kind, "dumb") != 0;
	}
	struct winsize size;
	if (terminal < 0 || ioctl(terminal, TIOCGWINSZ, &size) != 0)
		return 0;
	seen = seen || size.ws_row != DEFAULT_ROWS || size.ws_col != DEFAULT_COLUMNS;
	return seen ? size.ws_col : 0;
}

/* terminal_waits undoes a child's nonblocking mode, which would truncate output and make readers fail. */
void terminal_waits(void) {
	int now = terminal >= 0 ? fcntl(STDOUT_FILENO, F_GETFL) : -1;
	if (now >= 0 && now & O_NONBLOCK && isatty(STDOUT_FILENO))
		fcntl(STDOUT_FILENO, F_SETFL, now & ~O_NONBLOCK);
}

bool terminal_hides(void) { return echoes && (flags() & (ECHO | ICANON)) == ICANON; }

/* write_all writes everything, or returns false if there is no reader any more. It must not cause
 * SIGPIPE, because R's handler for it jumps, even out of a lock. */
bool write_all(int fd, const void *from, size_t n) {
	const char *at = from;
	sigset_t pipe_only, before;
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
	bool ok = true;
	while (n > 0) {
		ssize_t k = write(fd, at, n);
		if (k >= 0) {
			at += k;
			n -= (size_t)k;
		} else if (errno == EPIPE) {
#ifdef __linux__
			struct timespec at_once = {0, 0};
			sigtimedwait(&pipe_only, NULL, &at_once);
#else
			int taken;
			sigwait(&pipe_only, &taken);
#endif
			ok = false;
			break;
		} else if (errno == EAGAIN) {
			fd_set out;
			FD_ZERO(&out);
			FD_SET(fd, &out);
			select(fd + 1, NULL, &out, NULL, NULL);
		} else if (errno != EINTR) {
			ok = false;
			break;
		}
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ok;
}

void terminal_marker(uint64_t mark) {
	char text[96];
	int n = snprintf(text, sizeof text, "%s#%llu\033\\", prefix, (unsigned long long)mark);
	write_all(terminal, text, (size_t)n);
}

void terminal_echo(bool echo) {
	if (echo == echo_on || terminal < 0 || forked)
		return;
	echo_on = echo;
	fputs(echo ? to_echo : to_stdout, stdout);
}

void terminal_begin_echo(void) {
	if (terminal >= 0 && !forked)
		echo_on = echo_begins = true;
}

void terminal_error(const char *text, size_t n, bool report) {
	char whole[4096];
	fflush(stdout);
	echo_on = false; /* the marker after the text says so */
	if (forked) {
		write_all(2, text, n);
		return;
	}
	const char *begin = report ? to_report : to_stderr;
	size_t before = strlen(begin), behind = strlen(to_stdout);
	if (terminal < 0) {
		write_all(2, text, n);
	} else if (before + n + behind <= sizeof whole) { /* in one write, so that nothing comes in between */
		memcpy(whole, begin, before);
		memcpy(whole + before, text, n);
		memcpy(whole + before + n, to_stdout, behind);
		write_all(terminal, whole, before + n + behind);
	} else {
		write_all(terminal, begin, before);
		write_all(terminal, text, n);
		write_all(terminal, to_stdout, behind);
	}
}

/* R's output goes through libc's stdout, line by line. So it is in order with the output of C code,
 * and R's fflush(stdout) before system() and parallel's forks also writes an unfinished line. R's
 * own writes to stdout would be a system call for each number of a vector. */

enum { BULK = 4096 }; /* bytes; a write of at least this size goes to the channel, since a pipe is faster */

static atomic_bool unfinished; /* the last line */

void terminal_text(const char *text, size_t n) {
	if (forked) { /* it ends by _exit(), which flushes nothing */
		fwrite(text, 1, n, stdout);
		fflush(stdout);
		return;
	}
	bool begins = echo_begins;
	echo_begins = false;
	bool bulk = n >= BULK && terminal_is_fence();
	if (begins)
		fputs(bulk ? to_echo : to_begin, stdout); /* of bulk text, the frame says that it begins */
	if (!bulk) {
		fwrite(text, 1, n, stdout);
		atomic_store(&unfinished, text[n - 1] != '\n');
		return;
	}
	fflush(stdout);
	for (size_t k; n > 0; text += k, n -= k, begins = false) {
		k = n < MAX_OUTPUT ? n : MAX_OUTPUT;
		frame *f = send_begin("output", 2 + echo_on + begins, true);
		put_text(f, "stream", "stdout");
		if (echo_on)
			put_text(f, "kind", "result");
		if (begins)
			put_bool(f, "begins", true);
		put_bin_head(f, "data", k);
		send_frame(f, text, k);
	}
}

void terminal_flush(void) { fflush(stdout); }

int terminal_tick(bool fresh) {
	static int delay;
	if (!fresh)
		fflush(stdout);
	bool some = atomic_exchange(&unfinished, false);
	return delay = fresh || some ? 10 : delay < 80 ? 2 * delay : delay;
}

void text_going(void) {} /* the text has been written, and the markers say where it belongs */
#endif
