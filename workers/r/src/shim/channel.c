/* The channel: two pipes, and one thread that reads. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int in = -1, out = -1;

static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
static frame outgoing;     /* guarded by sending */
static uint64_t last_mark; /* likewise */

bool channel_open(const char *setting) {
	in = (int)number(&setting, 10);
	if (*setting++ != ',')
		return false;
	out = (int)number(&setting, 10);
	if (*setting++ != ',' || fcntl(in, F_GETFD) < 0 || fcntl(out, F_GETFD) < 0)
		return false;
	in = out_of_the_way(in);
	out = out_of_the_way(out);
	terminal_open(setting);
	return true;
}

frame *send_begin(const char *type, int n, bool placed) {
	pthread_mutex_lock(&sending);
	outgoing.placed = placed && terminal_is_fence();
	frame_begin(&outgoing, type, n + outgoing.placed);
	if (outgoing.placed)
		put_uint(&outgoing, "mark", ++last_mark);
	return &outgoing;
}

void send_frame(frame *f, const void *body, size_t n) {
	if (!f->failed && out >= 0) {
		uint32_t length = (uint32_t)(f->n - 4 + n);
		for (int i = 3; i >= 0; i--, length >>= 8)
			f->at[i] = (uint8_t)length;
		if (f->placed)
			terminal_marker(last_mark);
		if (write_all(out, f->at, f->n) && n > 0)
			write_all(out, body, n);
	}
	if (f->room > 1 << 20) { /* a long error message is no reason to keep the room */
		free(f->at);
		f->at = NULL, f->room = 0;
	}
	pthread_mutex_unlock(&sending);
}

/* read_frames returns what ended the channel: NULL when it was closed. */
static const char *read_frames(void) {
	uint8_t *buffer = NULL;
	size_t n = 0, room = 0;
	const char *wrong = NULL;
	for (;;) {
		if (room - n < 32 << 10) { /* grows with what arrives, not with what is announced */
			uint8_t *more = realloc(buffer, room = 2 * n + (64 << 10));
			if (more == NULL) {
				wrong = "no memory for a frame";
				break;
			}
			buffer = more;
		}
		struct pollfd input = {in, POLLIN, 0};
		for (int wait = console_tick(true); poll(&input, 1, wait) == 0;)
			wait = console_tick(false);
		ssize_t k = read(in, buffer + n, room - n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			if (n > 0)
				wrong = "the channel ended inside a frame";
			break;
		}
		n += (size_t)k;
		size_t done = 0;
		while (wrong == NULL && n - done >= 4) {
			const uint8_t *at = buffer + done;
			uint32_t length = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
			if (length > MAX_FRAME) {
				wrong = "a frame is over the bound";
			} else if (n - done - 4 < length) {
				break;
			} else {
				message m;
				wrong = decode((bytes){at + 4, length}, &m);
				if (wrong == NULL)
					console_take(&m);
				done += 4 + length;
			}
		}
		if (wrong != NULL)
			break;
		memmove(buffer, buffer + done, n -= done);
	}
	free(buffer);
	return wrong;
}

static void *reader(void *unused) {
	console_gone(read_frames());
	for (int wait; (wait = console_tick(false)) >= 0;)
		poll(NULL, 0, wait);
	return unused;
}

void channel_start(void) {
	pthread_t thread;
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* the reader's mask: R expects signals on its own thread */
	if (pthread_create(&thread, NULL, reader, NULL) == 0)
		pthread_detach(thread);
	else
		console_gone("no thread for the channel");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void channel_forget(void) {
	close(in);
	close(out);
	in = out = -1;
}
