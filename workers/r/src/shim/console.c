/* What R calls where it would talk to its console, and what the supervisor asks for.
 *
 * A turn is a queue of lines. R takes one at a time, and so may readline() in a line
 * before. When R asks at its top level and none is left, the turn is over. When anything
 * else asks and none is left, the supervisor is asked. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Who calls ReadConsole. */
typedef enum { NOBODY, TOP, CONTINUATION, BROWSER, READER } asker;

enum { SA_DEFAULT = 2, SA_NOSAVE = 3, SA_SUICIDE = 6 };

/* Lines that wait to be taken: at[from..to). */
typedef struct {
	char *at;
	size_t from, to, room;
	bool midline;   /* they begin inside of a line that was taken in part */
	uint64_t taken; /* lines, whole or in part */
} lines;

static struct {
	pthread_mutex_t lock; /* guards the rest; held for moments, never while R's code runs */

	/* The turn. */
	bool active;
	uint64_t turn, seq, level; /* seq and level: of the last interrupt that was acted on */
	bool started;       /* R has got a line, or the turn is the start-up */
	bool interrupted;
	bool complained; /* R has printed an error, behind the last interrupt */
	uint64_t unrun;  /* lines that were dropped */
	lines input;     /* what is left of it */

	/* The wait. */
	asker waiting;    /* who sits in select(); NOBODY: R is busy */
	uint64_t wait;    /* the last one that was asked */
	bool asked;       /* and it is not over */
	bool secret;      /* it was for a line that is not to be seen */
	lines answer;     /* goes before the input */
	bool end_of_file; /* behind the answer: one for the next reader */

	/* What else is wanted. */
	message query;
	char *query_text;
	bool queried, answering;
	bool ending;     /* come to an end: shutdown, or the channel is gone */
	const char *why; /* a protocol error */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .active = true, .started = true};

static int wake[2] = {-1, -1}; /* tells select() that state has changed */
static void (*r_cleanup)(int, int, int);

/* The main thread's own. */
static bool ready;            /* R has been at its top level */
static bool crashed;          /* R is about to ask what to do about a segfault */
static bool ended;            /* session_end has been sent */
static bool reset;            /* in this turn R went back to its top level */
static bool evaluated = true; /* since the last line that R got: evaluation, or a jump */
static bool blank;            /* that line had nothing to evaluate */
static bool left;             /* that line asked R to go back to its top level */
static asker last_taker;      /* of a line */
static bool loop_asks;        /* R's read-eval-print loop is about to call ReadConsole */
static bool erred;            /* R has printed an error since its top level got a line */
static bool newline;          /* the last that R printed, on standard error: what an interrupt prints before its jump */
static bool signalled;        /* in this turn an interrupt made R go back to its top level */
static bool resting;          /* in select(), at the top level */
static bool keep_going;
static const char *end_reason = "shutdown";
static int end_status;

/* ---- the queue of lines; with the lock */

static void add(lines *l, const void *from, size_t n) {
	const char *at = from;
	if (l->from == l->to)
		l->from = l->to = 0;
	if (l->to + n + 1 > l->room) {
		char *more = realloc(l->at, l->room = l->to + n + 1);
		if (more == NULL) { /* the turn ends without them, and says how many */
			free(l->at);
			*l = (lines){0};
			state.unrun++;
			return;
		}
		l->at = more;
	}
	for (size_t i = 0; i < n; i++) /* R takes \r and NUL for errors */
		if (at[i] != 0 && !(at[i] == '\r' && i + 1 < n && at[i + 1] == '\n'))
			l->at[l->to++] = at[i];
}

static bool any(const lines *l) { return l->from < l->to; }

static bool is_blank(const char *at, size_t n) {
	for (size_t i = 0; i < n; i++)
		if (at[i] == '#')
			return true;
		else if (at[i] != ' ' && at[i] != '\t' && at[i] != '\n' && at[i] != '\f')
			return false;
	return true;
}

static size_t line_length(const lines *l) {
	const char *at = l->at + l->from, *end = memchr(at, '\n', l->to - l->from);
	return end != NULL ? (size_t)(end - at) + 1 : l->to - l->from;
}

static void empty(lines *l) {
	l->from = l->to = 0;
	l->midline = false;
	if (l->room > 1 << 20) {
		free(l->at);
		l->at = NULL, l->room = 0;
	}
}

static void drop_input(void) {
	for (size_t n; any(&state.input); state.input.from += n) {
		n = line_length(&state.input);
		if (!is_blank(state.input.at + state.input.from, n))
			state.unrun++;
	}
	empty(&state.input);
}

static void drop_lines(void) {
	drop_input();
	empty(&state.answer);
	state.end_of_file = false;
}

/* leave_browser makes the browser that asks go back to the top level. */
static void leave_browser(void) {
	add(&state.answer, "Q\n", 2);
	state.answer.midline = true; /* nobody's answer */
}

/* ---- the reader thread */

static void nudge(void) {
	if (write(wake[1], "", 1) < 0 && errno != EAGAIN) { /* when it is full, it is awake */
	}
}

static const char *interrupt(const message *m) {
	bool query = m->turn == 0 && state.answering;
	if (!query && (!state.active || m->turn != state.turn))
		return "stale";
	if (!query && m->seq <= state.seq)
		return "raised"; /* a retry */
	state.seq = m->seq;
	state.level = m->level;
	if (!query) {
		state.interrupted = true;
		state.complained = false;
		drop_lines();
		state.asked = false;
	}
	if (!query && state.waiting == BROWSER && m->level == 1) {
		leave_browser(); /* SIGINT would only make it ask again */
	} else if (state.waiting != TOP || query) {
		interrupt_raise(m->level > 1);
	}
	return "raised";
}

void console_take(const message *m) {
	pthread_mutex_lock(&state.lock);
	switch (m->type) {
	case TURN_START: {
		state.active = true;
		state.started = state.interrupted = false;
		state.complained = false;
		state.input.taken = 0;
		state.turn = m->turn, state.seq = state.level = state.unrun = 0;
		bool bom = m->input.n >= 3 && memcmp(m->input.at, "\xef\xbb\xbf", 3) == 0;
		add(&state.input, m->input.at + 3 * bom, m->input.n - 3 * bom); /* R takes a byte order mark for an error */
		if (any(&state.input) && state.input.at[state.input.to - 1] != '\n')
			add(&state.input, "\n", 1);
		break;
	}
	case TURN_INPUT:
		if (!state.asked || m->wait != state.wait || m->turn != state.turn)
			break; /* that wait is over */
		state.asked = false;
		add(&state.answer, m->input.at, m->input.n);
		if (!m->eof && (!any(&state.answer) || state.answer.at[state.answer.to - 1] != '\n'))
			add(&state.answer, "\n", 1);
		state.end_of_file = m->eof;
		break;
	case INTERRUPT: {
		/* What is asked behind the acknowledgement counts, and nothing is asked before
		 * it: that takes the lock. */
		const char *result = interrupt(m);
		frame *f = send_begin("interrupt_ack", 3, false);
		put_uint(f, "turn", m->turn);
		put_uint(f, "seq", m->seq);
		put_text(f, "result", result);
		send_frame(f, NULL, 0);
		break;
	}
	case QUERY:
		free(state.query_text);
		state.query = *m;
		state.query_text = malloc(m->text.n + 1);
		if (state.query_text != NULL) {
			memcpy(state.query_text, m->text.at, m->text.n);
			state.query_text[m->text.n] = 0;
		}
		state.query.text.at = (uint8_t *)state.query_text;
		state.queried = true;
		break;
	case SHUTDOWN:
		state.ending = true;
		drop_lines();
		state.interrupted = true;
		if (state.waiting == NOBODY && state.active)
			interrupt_raise(true);
		break;
	}
	pthread_mutex_unlock(&state.lock);
	nudge();
}

void console_gone(const char *why) {
	pthread_mutex_lock(&state.lock);
	state.ending = true;
	state.why = why;
	drop_lines();
	if (state.waiting == NOBODY && state.active)
		interrupt_raise(true); /* what withstands that is the stage's to end */
	pthread_mutex_unlock(&state.lock);
	nudge();
}

static void awake(void *unused) {
	char some[64];
	(void)unused;
	while (!forked && read(wake[0], some, sizeof some) == sizeof some) {
	}
}

/* ---- reading */

static const char *option(const char *name) {
	SEXP o = Rf_GetOption1(Rf_install(name));
	return o != NULL && TYPEOF(o) == R_STRSXP && Rf_length(o) > 0 ? R_CHAR(STRING_ELT(o, 0)) : "";
}

/* who_asks tells R's read-eval-print loop, which says just before that it is no longer
 * busy, from all others. Its prompt is, as a pointer, that of an option or the browser's own. */
static asker who_asks(const char *prompt, bool loop) {
	if (!loop)
		return READER;
	const char *first = option("prompt"), *more = option("continue");
	if (prompt == first && prompt == more) /* equal strings are one: go by what happened since the last line */
		return evaluated || blank ? TOP : CONTINUATION;
	return prompt == first ? TOP : prompt == more ? CONTINUATION : BROWSER;
}

static void send_end(void) {
	if (ended || forked)
		return;
	ended = true;
	fflush(stdout);
	frame *f = send_begin("session_end", state.why != NULL ? 3 : 2, true);
	put_text(f, "reason", state.why != NULL ? "protocol_error" : end_reason);
	put_int(f, "code", end_status);
	if (state.why != NULL)
		put_text(f, "message", state.why);
	send_frame(f, NULL, 0);
}

/* quit ends R as q("no") does: .Last, finalizers, the temporary directory. */
static void quit(void) {
	static bool tried; /* an error in .Last is back here */
	bool run_last = !tried;
	tried = true;
	end_reason = "shutdown"; /* user code may have tried to leave before */
	end_status = state.why != NULL;
	r_cleanup(SA_NOSAVE, end_status, run_last);
	exit(end_status);
}

/* error_fields puts name and message of R's last error: "Error in f(x) : no such thing".
 * Within the handling of another it is the message alone. */
static void error_fields(frame *f, const char *text) {
	size_t n = strlen(text), name = strcspn(text, " :");
	const char *head = text + name, *message = strstr(head, *head == ':' ? ": " : " : ");
	if (message == NULL && (message = strstr(head, ":\n")) == NULL)
		message = text, name = 0;
	message += message != text ? strspn(message, " :\n") : 0;
	n -= (size_t)(message - text);
	while (n > 0 && strchr(" \n", message[n - 1]) != NULL)
		n--;
	put_map_head(f, "error", 2);
	put_text_n(f, "name", name > 0 ? text : "Error", name > 0 ? name : 5, 256);
	put_text_n(f, "message", message, n, MAX_TEXT);
}

/* new_error reports whether R's last error is another than at the call before. */
static bool new_error(void) {
	static char last[256];
	const char *error = R_curErrorBuf != NULL ? R_curErrorBuf() : "";
	bool other = strncmp(error, last, sizeof last - 1) != 0;
	snprintf(last, sizeof last, "%s", error);
	return other;
}

/* finish ends the turn. It is called without the lock. */
static void finish(void) {
	bool other_error = new_error(), waits = interrupt_waits(); /* our code takes it */
	code_finish();
	fflush(stdout);

	pthread_mutex_lock(&state.lock);
	bool own = state.complained || (other_error && !state.interrupted); /* an error with a message of R's */
	bool failed = reset && (own || !(left || state.interrupted || signalled)); /* else the code went back by itself */
	bool cut_short = (reset && !left) || state.unrun > 0 ||
		(state.interrupted && (!state.started || waits || R_interrupts_pending)); /* a child or a read took it */
	uint64_t turn = state.turn, unrun = state.unrun;
	state.active = false; /* from here on nothing is raised for it */
	state.unrun = 0;
	interrupt_settle();
	pthread_mutex_unlock(&state.lock);

	reset = signalled = false;
	frame *f = send_begin("idle", 3 + failed + (unrun > 0), true);
	put_uint(f, "turn", turn);
	put_text(f, "prompt", option("prompt"));
	put_text(f, "outcome", failed ? "error" : cut_short ? "interrupted" : "ok");
	if (failed)
		error_fields(f, own && R_curErrorBuf != NULL ? R_curErrorBuf() : "R went back to its top level without a message");
	if (unrun > 0)
		put_uint(f, "unrun", unrun);
	send_frame(f, NULL, 0);
}

/* ask sends stdin_wait. It is called and returns with the lock, but gives it up. */
static void ask(asker who, const char *prompt, bool secret) {
	uint64_t seq = state.seq;
	pthread_mutex_unlock(&state.lock);
	code_finish();
	fflush(stdout);
	pthread_mutex_lock(&state.lock);
	if (state.seq != seq) { /* our code may have swallowed it */
		interrupt_again(state.level > 1);
		return;
	}
	if (R_interrupts_pending || any(&state.answer) || state.ending)
		return; /* something has come up */
	if (who == BROWSER && reset && state.unrun == 0) { /* an error in what the browser was told ends nothing */
		new_error();
		reset = state.complained = false;
	}
	state.asked = true;
	state.secret = secret;
	state.wait++;
	frame *f = send_begin("stdin_wait", 5, true);
	put_uint(f, "turn", state.turn);
	put_uint(f, "wait", state.wait);
	put_text(f, "prompt", prompt);
	put_text(f, "kind", who == BROWSER ? "debugger" : secret ? "secret" : "line");
	put_text(f, "want", "line");
	send_frame(f, NULL, 0);
}

/* is_leave reports whether a line is the Q of a browser, or calls off the end of R: then
 * nothing is cut short that was wanted. */
static bool is_leave(asker who, const char *prompt, const char *at, size_t n) {
	if (who == READER)
		return strncmp(prompt, "Save workspace image?", 21) == 0 && (*at == 'c' || *at == 'C');
	if (who != BROWSER)
		return false;
	while (n > 0 && (*at == ' ' || *at == '\t'))
		at++, n--;
	return n > 0 && *at == 'Q' && is_blank(at + 1, n - 1);
}

/* take_line hands a line out, or as much of it as there is room for. With the lock. */
static int take_line(lines *from, asker who, const char *prompt, unsigned char *to, size_t room) {
	const char *at = from->at + from->from;
	size_t n = line_length(from);
	bool whole = n <= room - 1, first = !from->midline, answer = from == &state.answer;
	if (!whole)
		for (n = room - 1; n > 1 && (at[n] & 0xc0) == 0x80;)
			n--; /* between characters */
	memcpy(to, at, n);
	to[n] = 0;
	if (!state.started && !state.interrupted)
		R_interrupts_pending = 0; /* a SIGINT from before the turn */
	from->taken += first;
	if ((who == READER || who == BROWSER) && first) {
		bool secret = answer && state.secret;
		size_t length = line_length(from);
		if (length > 0 && at[length - 1] == '\n')
			length--;
		frame *f = send_begin("input_line", 3 + !secret + !answer, true);
		put_uint(f, "turn", state.turn);
		put_text(f, "prompt", prompt);
		if (!secret)
			put_text_n(f, "text", at, length, MAX_FRAME / 2);
		put_bool(f, "secret", secret);
		if (!answer)
			put_uint(f, "line", from->taken);
		send_frame(f, NULL, 0);
	}
	blank = (who == TOP || (who == CONTINUATION && blank)) && is_blank(at, n);
	left = !state.interrupted && is_leave(who, prompt, at, n);
	evaluated = false;
	erred = erred && who != TOP;
	last_taker = who;
	from->from += n;
	from->midline = !whole;
	state.started = true;
	if (answer && state.secret) /* it is nobody else's */
		memset(from->at + from->from - n, 0, n);
	return 1;
}

static int read_console(const char *prompt, unsigned char *to, int room, int history) {
	if (forked) {
		if (history)
			_exit(0); /* a fork that came out of its code: R's own end would remove the parent's files */
		return 0;
	}
	if (crashed && !history) {
		memcpy(to, "1\n", 3); /* "abort": the process dies of its signal */
		return 1;
	}
	interrupt_mend();
	asker who = who_asks(prompt, loop_asks);
	loop_asks = false;
	if (who == TOP && !ready) {
		code_load();
		ready = true;
	}
	if (who == READER || who == BROWSER)
		fflush(stdout); /* before its input_line */
	bool secret = who == READER && terminal_hides();
	/* What options(error) starts asks before R goes back to its top level. */
	bool handles = (who == READER || who == BROWSER) && erred && !keep_going && Rf_GetOption1(Rf_install("error")) != R_NilValue;
	for (;;) {
		pthread_mutex_lock(&state.lock);
		state.waiting = NOBODY;
		if (handles)
			drop_input();
		if (interrupt_forced()) {
			pthread_mutex_unlock(&state.lock);
			Rf_jump_to_toplevel();
		}
		if (state.ending && who == TOP) {
			interrupt_settle(); /* .Last is not meant */
			pthread_mutex_unlock(&state.lock);
			quit();
		}
		if (who == BROWSER && state.interrupted && reset && last_taker != BROWSER && !any(&state.answer) && !any(&state.input))
			leave_browser(); /* the interrupt came while it began */
		if (any(&state.answer) || (any(&state.input) && !secret)) {
			int n = take_line(any(&state.answer) ? &state.answer : &state.input, who, prompt, to, (size_t)room);
			pthread_mutex_unlock(&state.lock);
			return n;
		}
		static bool told_of_end;
		if (state.ending && who != TOP && told_of_end) {
			pthread_mutex_unlock(&state.lock);
			Rf_jump_to_toplevel(); /* it asks again and again */
		}
		told_of_end = told_of_end || (state.ending && who != TOP);
		if (who == CONTINUATION || state.end_of_file || (who != TOP && (state.ending || !state.active))) {
			/* To R this is the end of its input: of an expression that has none, an
			 * error; of a browser, to go on. */
			state.end_of_file = false;
			pthread_mutex_unlock(&state.lock);
			return 0;
		}
		if (who == TOP && state.active) {
			pthread_mutex_unlock(&state.lock);
			finish();
			continue;
		}
		if (who == TOP && state.queried) {
			state.queried = false;
			state.answering = true;
			state.seq = 0;
			message q = state.query;
			pthread_mutex_unlock(&state.lock);
			code_answer(&q);
			continue;
		}
		if (who != TOP && !state.asked && !R_interrupts_pending) {
			ask(who, prompt, secret);
			if (!state.asked) {
				pthread_mutex_unlock(&state.lock);
				if (!R_interrupts_pending)
					continue;
				pthread_mutex_lock(&state.lock);
			}
		}
		state.waiting = who;
		pthread_mutex_unlock(&state.lock);
		/* R's own event loop: its help server, timers of packages, windows. SIGINT jumps
		 * out of it. */
		fflush(stdout); /* a callback of a package's may have left something */
		int timeout = R_wait_usec > 0 ? R_wait_usec : -1;
		if (&Rg_wait_usec != NULL && Rg_wait_usec > 0 && (timeout < 0 || Rg_wait_usec < timeout))
			timeout = Rg_wait_usec;
		resting = who == TOP;
		fd_set *active = R_checkActivity(timeout, 1);
		resting = false;
		pthread_mutex_lock(&state.lock);
		state.waiting = NOBODY;
		pthread_mutex_unlock(&state.lock);
		R_runHandlers(R_InputHandlers, active);
		if (who == TOP && active != NULL && !state.active)
			code_finish(); /* a callback may have drawn */
	}
}

void console_answered(void) {
	pthread_mutex_lock(&state.lock);
	state.answering = false;
	pthread_mutex_unlock(&state.lock);
	interrupt_settle();
}

/* ---- writing
 *
 * R's output goes through libc's stdout, line by line. So it is in order with what C code
 * prints there, and R's fflush(stdout) before system() and parallel's forks writes out a
 * line that is not finished, too. R's own way to stdout would be a system call for each
 * number of a vector. */

enum { BULK = 4096 }; /* bytes from which on a write goes to the channel: a pipe is faster */

static atomic_bool unfinished; /* the last line */

/* console_tick writes out a line that stays unfinished, and follows an interrupt up. It
 * returns in how many ms it wants to be called again; -1: not before the next frame. For
 * the reader thread, with fresh after a frame. */
int console_tick(bool fresh) {
	static int delay;
	pthread_mutex_lock(&state.lock);
	bool busy = state.active && !state.asked;
	int chase = interrupt_chase(); /* with the lock: no turn ends meanwhile */
	pthread_mutex_unlock(&state.lock);
	if (!busy)
		return chase;
	if (!fresh)
		fflush(stdout);
	bool some = atomic_exchange(&unfinished, false);
	delay = fresh || some ? 10 : delay < 80 ? 2 * delay : delay;
	return chase >= 0 && chase < delay ? chase : delay;
}

static void write_output(const char *text, size_t n) {
	if (forked) { /* its end is _exit(), which writes nothing out */
		fwrite(text, 1, n, stdout);
		fflush(stdout);
		return;
	}
	if (n < BULK || !terminal_is_fence()) {
		fwrite(text, 1, n, stdout);
		atomic_store(&unfinished, text[n - 1] != '\n');
		return;
	}
	fflush(stdout);
	for (size_t k; n > 0; text += k, n -= k) {
		k = n < MAX_OUTPUT ? n : MAX_OUTPUT;
		frame *f = send_begin("output", 2, true);
		put_text(f, "stream", "stdout");
		put_bin_head(f, "data", k);
		send_frame(f, text, k);
	}
}

/* show_page has code_page look at what was drawn. An interrupt that it has swallowed was
 * meant for the user's code. */
static void show_page(bool midline) {
	pthread_mutex_lock(&state.lock);
	uint64_t seq = state.seq;
	bool waits = interrupt_waits();
	pthread_mutex_unlock(&state.lock);
	if (code_page(midline))
		return;
	pthread_mutex_lock(&state.lock);
	if (waits || state.seq != seq)
		interrupt_again(state.level > 1);
	pthread_mutex_unlock(&state.lock);
}

static void write_console(const char *text, int n, int type) {
	if (n <= 0 || code_running() || resting) /* resting: the newline of a SIGINT that nobody asked for */
		return;
	static bool midline;
	if (!forked)
		show_page(midline);
	midline = text[n - 1] != '\n';
	newline = type != 0 && n == 1 && !midline;
	if (type == 0) {
		if (!forked)
			interrupt_due();
		write_output(text, (size_t)n);
		return;
	}
	fflush(stdout);
	if (forked) {
		write_all(2, text, (size_t)n);
		return;
	}
	if (strncmp(text, "\n *** caught ", 13) == 0)
		crashed = true;
	if (R_curErrorBuf != NULL && strncmp(R_curErrorBuf(), text, (size_t)n) == 0) {
		pthread_mutex_lock(&state.lock);
		state.complained = true;
		pthread_mutex_unlock(&state.lock);
		erred = true;
	}
	terminal_error(text, (size_t)n);
}

static void show_message(const char *text) {
	write_console(text, (int)strlen(text), 1);
	write_console("\n", 1, 1);
}

/* show_line prints a line without overstrikes: "_\bX" and "X\bX" are how pages for
 * terminals underline and embolden an X. */
static void show_line(char *line, size_t n) {
	size_t end = 0;
	for (size_t i = 0; i < n; i++) {
		if (line[i] != '\b') {
			line[end++] = line[i];
			continue;
		}
		while (end > 0 && (line[--end] & 0xc0) == 0x80) {
		}
	}
	fwrite(line, 1, end, stdout);
}

static int show_files(int n, const char **files, const char **headers, const char *title, int remove, const char *pager) {
	(void)title;
	(void)pager;
	char *line = NULL;
	size_t room = 0;
	for (int i = 0; i < n; i++) {
		if (headers[i] != NULL && *headers[i] != 0)
			printf("%s\n\n", headers[i]);
		FILE *file = fopen(files[i], "re");
		if (file == NULL) {
			printf("%s: %s\n", files[i], strerror(errno));
			continue;
		}
		for (ssize_t k; (k = getline(&line, &room, file)) > 0;)
			show_line(line, (size_t)k);
		fclose(file);
		if (remove & 0xff) /* R's truth value */
			unlink(files[i]);
	}
	free(line);
	fputc('\n', stdout);
	fflush(stdout);
	return 0;
}

/* ---- the rest */

static void flush_console(void) { fflush(stdout); }
static void clear_console(void) {}

static void busy(int which) {
	if (!which) {
		loop_asks = true;
		if (&R_NoEcho != NULL)
			R_NoEcho = 0; /* R would pass an empty prompt, whoever asks; the option stays what it is */
		return;
	}
	evaluated = true;
	newline = false;
	if (!forked)
		interrupt_due();
}

/* reset_console is called for every jump to the top level: errors, interrupts, Q. */
static void reset_console(void) {
	evaluated = true;
	if (forked || code_running())
		return;
	pthread_mutex_lock(&state.lock);
	resting = false;
	state.asked = false;
	state.waiting = NOBODY;
	if (state.active && (state.started || state.interrupted)) { /* else a SIGINT from before the turn */
		reset = true;
		signalled = signalled || newline;
		newline = false;
		if (!keep_going || state.interrupted)
			drop_lines();
	}
	pthread_mutex_unlock(&state.lock);
}

static void clean_up(int save, int status, int run_last) {
	if (forked) { /* what R does at its end would be its parent's: the temporary directory, .Last */
		fflush(stdout);
		_exit(status);
	}
	if (!state.ending) {
		end_reason = save == SA_SUICIDE ? "crash" : "exit";
		end_status = status;
		if (save != SA_SUICIDE && !code_running())
			code_finish();
	}
	/* Nobody can be asked whether to save by somebody who has ended already. */
	r_cleanup(save == SA_DEFAULT ? SA_NOSAVE : save, status, run_last);
}

static void at_exit(void *unused) {
	(void)unused;
	send_end();
}

extern int __cxa_atexit(void (*)(void *), void *, void *);

void console_install(bool go_on) {
	keep_going = go_on;
	if (pipe(wake) == 0) {
		for (int i = 0; i < 2; i++) {
			wake[i] = out_of_the_way(wake[i]);
			fcntl(wake[i], F_SETFL, O_NONBLOCK);
		}
		addInputHandler(R_InputHandlers, wake[0], awake, 77);
	}
	/* Line buffered, as libc has it for a terminal, but with room for long lines. */
	static char room[64 << 10];
	setvbuf(stdout, room, _IOLBF, sizeof room);
	R_Outputfile = R_Consolefile = NULL; /* while they are set, R writes there itself */
	ptr_R_WriteConsole = NULL;
	ptr_R_WriteConsoleEx = write_console;
	ptr_R_ReadConsole = read_console;
	ptr_R_ResetConsole = reset_console;
	ptr_R_FlushConsole = flush_console;
	ptr_R_ClearerrConsole = clear_console;
	ptr_R_Busy = busy;
	ptr_R_ShowMessage = show_message;
	ptr_R_ShowFiles = show_files;
	r_cleanup = ptr_R_CleanUp;
	ptr_R_CleanUp = clean_up;
	__cxa_atexit(at_exit, NULL, NULL);
}
