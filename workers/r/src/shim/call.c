/* Calls of the host's functions. For all systems.
 *
 * R code reserves a number, sends the call, waits, and fetches the result (functions.R). An
 * interrupt makes R jump out of the wait, so the result is stored in a table here, and the
 * code's on.exit() frees its slot. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CALLS 32 /* nested: callbacks call while another call waits */

typedef struct {
	uint64_t id; /* 0: free */
	bool done, failed;
	uint8_t *at;
	size_t n, room;
} slot;

static lock guard = LOCK;
static slot slots[MAX_CALLS];                  /* guarded by guard, as are the next three */
static uint64_t last_id;
static struct { uint8_t *at; size_t n; } list; /* of functions, encoded */
static bool list_changed;

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
			s->n = 0; /* no memory: empty bytes are not an encoded value, which is an error */
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

bool call_list_changed(void) {
	take(&guard);
	bool changed = list_changed;
	list_changed = false;
	leave(&guard);
	return changed;
}

/* turnstone_functions returns the list of functions, or NULL. utf8 says whether R's native text is UTF-8. */
EXPORT SEXP turnstone_functions(SEXP utf8) {
	value_in_utf8 = LOGICAL(utf8)[0] == 1;
	take(&guard);
	size_t n = list.n;
	leave(&guard);
	if (n == 0)
		return R_NilValue;
	SEXP copy = Rf_protect(Rf_allocVector(R_RAWSXP, (ptrdiff_t)n));
	take(&guard);
	bool same = list.n == n;
	if (same)
		memcpy(RAW(copy), list.at, n);
	leave(&guard); /* if it has changed in the meantime, R reads it again */
	const char *wrong;
	SEXP functions = same ? value_read((bytes){RAW(copy), n}, &wrong) : NULL;
	Rf_unprotect(1);
	return functions != NULL ? functions : R_NilValue;
}

/* open_slot returns a number for a call. 0: this is a forked child; -1: there are too many calls;
 * -2: the session is ending. */
static double open_slot(void) {
	double id = -1;
	if (forked)
		return 0;
	take(&guard);
	slot *s = find(0);
	if (console_ending())
		id = -2;
	else if (s != NULL)
		id = (double)(s->id = ++last_id);
	leave(&guard);
	return id;
}

/* turnstone_call_begin sends a call and puts its number into cell. R's code has registered on.exit()
 * for cell before, so no jump can leak the slot. The result is the name and message of an error,
 * or NULL. */
EXPORT SEXP turnstone_call_begin(SEXP cell, SEXP name, SEXP args) {
	const char *kind, *words;
	bytes document = value_write(args, &kind, &words);
	if (document.at == NULL)
		return value_texts(kind, words);
	const char *function = R_CHAR(STRING_ELT(name, 0));
	double id = REAL(cell)[0] = open_slot();
	if (id < 1)
		return R_NilValue;
	terminal_flush();
	frame *f = send_begin("call", 4, terminal_written());
	put_uint(f, "id", (uint64_t)id);
	put_uint(f, "turn", console_turn());
	put_text_n(f, "name", function, strlen(function), MAX_BRIEF);
	put_bin_head(f, "args", document.n);
	send_frame(f, document.at, document.n);
	return R_NilValue;
}

/* How a call has ended, for functions.R. */
enum { VALUE, FAILED, NONE, UNREADABLE };

/* turnstone_call_result waits for the result and puts into cell how the call has ended. R serves
 * its events while it waits, as in Sys.sleep(). An interrupt jumps out of it. */
EXPORT SEXP turnstone_call_result(SEXP cell) {
	double *state = REAL(cell) + 1;
	slot *s;
	for (;;) {
		take(&guard);
		s = forked ? NULL : find((uint64_t)REAL(cell)[0]);
		bool over = s == NULL || s->done;
		leave(&guard);
		*state = NONE;
		if (s == NULL || (!over && console_ending()))
			return R_NilValue;
		if (over)
			break;
		main_wait();
		main_events();
		R_CheckUserInterrupt();
	}
	/* The slot is this call's until turnstone_call_done: nothing else touches it. */
	const char *wrong;
	SEXP value = value_read((bytes){s->at, s->n}, &wrong);
	*state = value == NULL ? UNREADABLE : s->failed ? FAILED : VALUE;
	return value == NULL ? value_texts(wrong, NULL) : value;
}

/* turnstone_call_done frees the slot, for whose result no code waits any longer. */
EXPORT SEXP turnstone_call_done(SEXP cell) {
	double id = REAL(cell)[0];
	if (forked || id < 1)
		return R_NilValue;
	take(&guard);
	slot *s = find((uint64_t)id);
	bool cancel = s != NULL && !s->done;
	if (s != NULL)
		release(s);
	leave(&guard);
	if (cancel) {
		frame *f = send_begin("call_cancel", 1, false);
		put_uint(f, "id", (uint64_t)id);
		send_frame(f, NULL, 0);
	}
	return R_NilValue;
}
