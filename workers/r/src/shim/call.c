/* Calls of the host's functions. For all systems.
 *
 * R code takes a number, sends the call, waits, and takes the result (functions.R). An
 * interrupt makes R jump out of the wait, so a result is kept in a table here, and the
 * code's on.exit() gives its place back. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CALLS 32 /* one in the wait of another, from callbacks */

typedef struct {
	uint64_t id; /* 0: free */
	bool sent, done, failed;
	uint8_t *at;
	size_t n, room;
} slot;

static lock guard = LOCK;
static slot slots[MAX_CALLS];                  /* guarded by guard */
static uint64_t last_id;                       /* likewise */
static struct { uint8_t *at; size_t n; } list; /* of functions, as a document; likewise */
static bool list_changed;                      /* likewise */

static slot *find(uint64_t id) {
	for (int i = 0; i < MAX_CALLS; i++)
		if (slots[i].id == id)
			return &slots[i];
	return NULL;
}

static void release(slot *s) {
	free(s->at);
	memset(s, 0, sizeof *s);
}

/* ---- the reader thread */

void call_result(const message *m) {
	take(&guard);
	slot *s = find(m->id);
	if (s != NULL && !s->done) {
		if (s->n + m->value.n > s->room) {
			size_t room = m->more ? 2 * (s->n + m->value.n) : s->n + m->value.n;
			uint8_t *at = realloc(s->at, room);
			if (at != NULL)
				s->at = at, s->room = room;
		}
		if (s->n + m->value.n <= s->room) {
			if (m->value.n > 0)
				memcpy(s->at + s->n, m->value.at, m->value.n);
			s->n += m->value.n;
		} else {
			s->n = 0; /* no memory: what is left is no document, which is an error */
		}
		s->failed = m->failed;
		s->done = !m->more;
	}
	leave(&guard);
}

void call_functions(const message *m) {
	take(&guard);
	free(list.at);
	list.at = malloc(m->value.n + 1);
	list.n = list.at != NULL ? m->value.n : 0;
	if (list.n > 0)
		memcpy(list.at, m->value.at, list.n);
	list_changed = true;
	leave(&guard);
}

/* ---- the main thread */

bool call_news(void) {
	take(&guard);
	bool changed = list_changed;
	list_changed = false;
	leave(&guard);
	return changed;
}

/* turnstone_functions gives the size of the list of functions, or copies it. */
EXPORT void turnstone_functions(double *size, uint8_t *to) {
	take(&guard);
	if (*size == 0)
		*size = (double)list.n;
	else if (*size <= (double)list.n)
		memcpy(to, list.at, (size_t)*size);
	leave(&guard);
}

/* turnstone_call_id gives the number for a call: 0: this is a forked child, -1: there are too
 * many, -2: the session is ending. */
EXPORT void turnstone_call_id(double *id) {
	*id = 0;
	if (forked)
		return;
	take(&guard);
	slot *s = find(0);
	if (console_ending())
		*id = -2;
	else if (s == NULL)
		*id = -1;
	else
		*id = (double)(s->id = ++last_id);
	leave(&guard);
}

EXPORT void turnstone_call_send(double *id, char **name, uint8_t *args, double *n) {
	take(&guard);
	slot *s = forked ? NULL : find((uint64_t)*id);
	if (s != NULL)
		s->sent = true;
	leave(&guard);
	if (s == NULL)
		return;
	terminal_flush();
	frame *f = send_begin("call", 4, terminal_written());
	put_uint(f, "id", (uint64_t)*id);
	put_uint(f, "turn", console_turn());
	put_text_n(f, "name", *name, strlen(*name), MAX_BRIEF);
	put_bin_head(f, "args", (size_t)*n);
	send_frame(f, args, (size_t)*n);
}

/* turnstone_call_wait waits for a result, and tells its size. R serves its events meanwhile, as
 * in Sys.sleep(); an interrupt jumps out of it. state: 0 is a value, 1 an error, 2 that there
 * will be none. */
EXPORT void turnstone_call_wait(double *id, int *state, double *size) {
	for (;;) {
		take(&guard);
		slot *s = forked ? NULL : find((uint64_t)*id);
		bool over = s == NULL || s->done;
		*state = s == NULL ? 2 : s->failed;
		*size = s == NULL ? 0 : (double)s->n;
		leave(&guard);
		if (over)
			return;
		if (console_ending()) {
			*state = 2;
			return;
		}
		main_wait();
		main_events();
		R_CheckUserInterrupt();
	}
}

EXPORT void turnstone_call_take(double *id, double *size, uint8_t *to) {
	take(&guard);
	slot *s = find((uint64_t)*id);
	if (s != NULL && s->done && *size <= (double)s->n && s->n > 0)
		memcpy(to, s->at, (size_t)*size);
	leave(&guard);
}

/* turnstone_call_done gives the place back. Nobody waits for the result any more. */
EXPORT void turnstone_call_done(double *id) {
	if (forked || *id < 1)
		return;
	take(&guard);
	slot *s = find((uint64_t)*id);
	bool cancel = s != NULL && s->sent && !s->done;
	if (s != NULL)
		release(s);
	leave(&guard);
	if (!cancel)
		return;
	frame *f = send_begin("call_cancel", 1, false);
	put_uint(f, "id", (uint64_t)*id);
	send_frame(f, NULL, 0);
}
