/* The channel: frames in both directions, and the reader thread. For all systems. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

lock sending = LOCK;
static frame outgoing;     /* guarded by sending */
static uint64_t last_mark; /* guarded by sending */

frame *send_begin(const char *type, int n, bool placed) {
	take(&sending);
	text_going();
	outgoing.placed = placed && terminal_is_fence();
	frame_begin(&outgoing, type, n + outgoing.placed);
	if (outgoing.placed)
		put_uint(&outgoing, "mark", ++last_mark);
	return &outgoing;
}

void frame_out(frame *f, const void *body, size_t n) {
	if (f->failed || !way_is_open())
		return;
	uint32_t length = (uint32_t)(f->n - 4 + n);
	for (int i = 3; i >= 0; i--, length >>= 8)
		f->at[i] = (uint8_t)length;
	if (f->placed)
		terminal_marker(last_mark);
	if (channel_write(f->at, f->n) && n > 0)
		channel_write(body, n);
}

void send_frame(frame *f, const void *body, size_t n) {
	frame_out(f, body, n);
	if (f->room > 1 << 20) { /* the memory of one long error message is not kept */
		free(f->at);
		f->at = NULL, f->room = 0;
	}
	leave(&sending);
}

/* read_frames returns why the channel ended, or NULL if it was closed. */
static const char *read_frames(void) {
	uint8_t *buffer = NULL;
	size_t n = 0, room = 0;
	const char *wrong = NULL;
	for (;;) {
		if (room - n < 32 << 10) { /* grows with the bytes that arrive, not with the length that a frame claims */
			uint8_t *more = realloc(buffer, room = 2 * n + (64 << 10));
			if (more == NULL) {
				wrong = "no memory for a frame";
				break;
			}
			buffer = more;
		}
		size_t k = channel_read(buffer + n, room - n);
		if (k == 0) {
			if (n > 0)
				wrong = "the channel ended inside a frame";
			break;
		}
		n += k;
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

static void reader(void) {
	console_gone(read_frames());
	for (int wait; (wait = console_tick(false)) >= 0;)
		channel_rest(wait);
}

void channel_start(void) {
	if (!channel_thread(reader))
		console_gone("no thread for the channel");
}
