/* The terminal: R writes its standard output there itself, as it always does. What is
 * added are the markers of frames, and those around standard error. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int terminal = -1; /* a description of our own, which user code cannot reach */
static bool echoes;       /* it did when R started */
static char to_stderr[64], to_stdout[64], prefix[48];

/* out_of_the_way moves fd to where user code is unlikely to meet it, and where select()
 * still can. Children do not get it. */
int out_of_the_way(int fd) {
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
	terminal = out_of_the_way(fd);
	echoes = flags() & ECHO;
	snprintf(prefix, sizeof prefix, "\033_%s;", nonce);
	snprintf(to_stderr, sizeof to_stderr, "%sE\033\\", prefix);
	snprintf(to_stdout, sizeof to_stdout, "%sO\033\\", prefix);
	return true;
}

bool terminal_is_fence(void) { return terminal >= 0; }

bool terminal_hides(void) { return echoes && (flags() & (ECHO | ICANON)) == ICANON; }

/* write_all writes everything, or returns false when nobody reads any more. SIGPIPE must
 * not come of it: R's handler for it jumps, out of whatever lock is held. */
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

void terminal_error(const char *text, size_t n) {
	char whole[4096];
	size_t before = strlen(to_stderr), behind = strlen(to_stdout);
	if (terminal < 0) {
		write_all(2, text, n);
	} else if (before + n + behind <= sizeof whole) { /* at once, so that nothing comes between */
		memcpy(whole, to_stderr, before);
		memcpy(whole + before, text, n);
		memcpy(whole + before + n, to_stdout, behind);
		write_all(terminal, whole, before + n + behind);
	} else {
		write_all(terminal, to_stderr, before);
		write_all(terminal, text, n);
		write_all(terminal, to_stdout, behind);
	}
}
