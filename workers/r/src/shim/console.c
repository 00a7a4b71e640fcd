/* The functions that R calls instead of its console, and the requests of the supervisor.
 * For all systems.
 *
 * A turn is a queue of lines. R takes one at a time; readline() in an earlier line may take
 * one, too. When R asks at its top level and no line is left, the turn is over. When any other
 * code asks and no line is left, an input request goes to the supervisor. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <unistd.h>
#endif

/* The caller of ReadConsole. */
typedef enum { NO_ASKER, TOP, CONTINUATION, BROWSER, READER } asker;

enum { SA_DEFAULT = 2, SA_NOSAVE = 3, SA_SUICIDE = 6 };

/* Queued lines: at[from..to). */
typedef struct {
	char *at;
	size_t from, to, room;
	bool midline;   /* they start within a line that was taken in part */
	uint64_t taken; /* lines, whole or in part */
} lines;

static struct {
	lock lock; /* guards the rest; held for moments, never while R's code runs */

	/* The turn. */
	bool active;
	uint64_t turn, seq, level; /* seq and level: of the last interrupt that was acted on */
	bool started;       /* R has got a line, or the turn is the start-up */
	bool silent;
	bool cell; /* the input is a cell of a notebook */
	bool interrupted;
	bool complained; /* R has printed an error since the last interrupt */
	uint64_t unrun;  /* lines that were dropped */
	lines input;     /* the rest of its lines */

	/* The input request. */
	asker waiting;    /* the caller that is in main_wait(); NO_ASKER: R is busy */
	uint64_t wait;    /* number of the last request */
	bool asked;       /* the request is pending */
	bool secret;      /* the line must not be shown */
	lines answer;     /* taken before the input */
	bool end_of_file; /* after the answer, for the next reader */

	/* Other requests. */
	message query;
	char *query_text;
	bool queried, answering;
	bool ending;     /* after shutdown or the end of the channel */
	const char *why; /* a protocol error */
} state = {.lock = LOCK, .active = true, .started = true};

static void (*r_cleanup)(int, int, int);

/* State of the main thread. */
static bool ready;            /* R has been at its top level */
static bool crashed;          /* R is about to ask what to do about a segfault */
static bool ended;            /* session_end has been sent */
static bool reset;            /* in this turn R went back to its top level */
static bool evaluated = true; /* R has evaluated or jumped since it got the last line */
static bool blank;            /* that line had nothing to evaluate */
static bool left;             /* that line asked R to go back to its top level */
static asker last_taker;      /* of a line; a continuation belongs to the one before */
static bool loop_asks;        /* R's read-eval-print loop may be about to call ReadConsole */
static bool loop_next;        /* what R evaluates next is an expression of its loop */
static const char *browsers;  /* the prompt of R's browser, always at the same address */
static bool learning;         /* the next prompt is the browser's */
static bool erred;            /* R has printed an error since its top level got a line */
static bool tells;            /* R calls console_went_on() behind each expression */
static bool going;            /* it has not called it yet for the current expression */
static bool newline;          /* R's last output is a newline on standard error, which an interrupt prints before its jump */
static bool signalled;        /* in this turn an interrupt made R go back to its top level */
static bool resting;          /* in main_wait(), at the top level */
static uint64_t written;      /* texts that R wrote */
static bool keep_going;
static char said[8192];       /* the message of the last error, unless R has printed it */
static bool program; /* the input is a whole program, of which readline() gets no line */
static bool echoing;          /* the last text that R wrote is of a value */
static bool echoed;           /* R has written text of the value of the expression that it evaluates */
static bool evaluates;        /* R evaluates an expression of its loop, and has not reported its value */

/* A mark shows whether R has assigned one of its own variables, even if it assigned the same object
 * again: the variable is bound to a promise of its value. */
static struct mark {
	const char *name;
	SEXP symbol, bind, pair; /* bind: the call that binds; pair: the promised value, and the promise */
	SEXP promise;
} echo = {.name = ".Last.value"}, trace = {.name = ".Traceback"};
static const char *end_reason = "shutdown";
static int end_status;

/* mark_moved reports whether R has set the variable since mark_set. */
static bool mark_moved(const struct mark *m) {
	return m->promise != NULL && Rf_findVarInFrame(R_BaseEnv, m->symbol) != m->promise;
}

static void mark_set(struct mark *m) {
	if (!has(Rf_findVarInFrame) || !has(R_UnboundValue) || (m->promise != NULL && !mark_moved(m)))
		return;
	if (m->symbol == NULL) {
		m->symbol = Rf_install(m->name);
		R_PreserveObject(m->pair = Rf_allocVector(R_VECSXP, 2));
		SEXP get = Rf_protect(Rf_lang3(Rf_install(".subset2"), m->pair, Rf_protect(Rf_ScalarInteger(1))));
		R_PreserveObject(m->bind = Rf_lang3(Rf_install("delayedAssign"), Rf_protect(Rf_mkString(m->name)), get));
		Rf_unprotect(3);
	}
	SEXP now = Rf_findVarInFrame(R_BaseEnv, m->symbol);
	if (now == R_UnboundValue) {
		m->promise = now;
		return;
	}
	SET_VECTOR_ELT(m->pair, 0, now);
	R_unLockBinding(m->symbol, R_BaseEnv);
	Rf_eval(m->bind, R_BaseEnv);
	R_LockBinding(m->symbol, R_BaseEnv);
	m->promise = Rf_findVarInFrame(R_BaseEnv, m->symbol);
	SET_VECTOR_ELT(m->pair, 1, m->promise); /* so that no other object gets its address */
}

/* ---- the queue of lines; with the lock */

static void add(lines *l, const void *from, size_t n) {
	const char *at = from;
	if (l->from == l->to)
		l->from = l->to = 0;
	if (l->to + n + 1 > l->room) {
		char *more = realloc(l->at, l->room = l->to + n + 1);
		if (more == NULL) { /* no memory: the turn ends without them and reports their number */
			free(l->at);
			*l = (lines){0};
			state.unrun++;
			return;
		}
		l->at = more;
	}
	for (size_t i = 0; i < n; i++) /* R rejects \r and NUL */
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

/* leave_browser makes the browser that is asking return to the top level. */
static void leave_browser(void) {
	add(&state.answer, "Q\n", 2);
	state.answer.midline = true; /* this is not an answer of the supervisor's */
}

/* ---- the reader thread */

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

void console_interrupt(void) {
	take(&state.lock);
	if (state.active)
		interrupt_raise(false);
	leave(&state.lock);
}

void console_take(const message *m) {
	take(&state.lock);
	switch (m->type) {
	case TURN_START: {
		state.active = true;
		state.started = state.interrupted = false;
		state.complained = false;
		state.input.taken = 0;
		state.silent = m->silent;
		state.cell = m->cell;
		state.turn = m->turn, state.seq = state.level = state.unrun = 0;
		bool bom = m->input.n >= 3 && memcmp(m->input.at, "\xef\xbb\xbf", 3) == 0;
		add(&state.input, m->input.at + 3 * bom, m->input.n - 3 * bom); /* R rejects a byte order mark */
		if (any(&state.input) && state.input.at[state.input.to - 1] != '\n')
			add(&state.input, "\n", 1);
		break;
	}
	case TURN_INPUT:
		if (!state.asked || m->wait != state.wait || m->turn != state.turn)
			break; /* that request is over */
		state.asked = false;
		add(&state.answer, m->input.at, m->input.n);
		if (!m->eof && (!any(&state.answer) || state.answer.at[state.answer.to - 1] != '\n'))
			add(&state.answer, "\n", 1);
		state.end_of_file = m->eof;
		break;
	case INTERRUPT: {
		/* Only an input request after the acknowledgement counts. None can come before it,
		 * because asking takes the lock. */
		const char *result = interrupt(m);
		if (ended)
			break; /* R may take long to exit, and nothing may follow session_end */
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
	case FUNCTIONS:
		call_functions(m);
		break;
	case CALL_RESULT:
		call_result(m);
		break;
	case SHUTDOWN:
		state.ending = true;
		drop_lines();
		state.interrupted = true;
		if (state.waiting == NO_ASKER && state.active)
			interrupt_raise(true);
		break;
	}
	leave(&state.lock);
	main_wake();
}

void console_gone(const char *why) {
	take(&state.lock);
	state.ending = true;
	state.why = why;
	drop_lines();
	if (state.waiting == NO_ASKER && state.active)
		interrupt_raise(true); /* if it has no effect, the monitor ends the process */
	leave(&state.lock);
	main_wake();
}

bool terminal_written(void) {
	static uint64_t known;
	bool fresh = written != known;
	known = written;
	return fresh;
}

/* ---- reading */

static const char *option(const char *name) {
	SEXP o = Rf_GetOption1(Rf_install(name));
	return o != NULL && TYPEOF(o) == R_STRSXP && Rf_length(o) > 0 ? R_CHAR(STRING_ELT(o, 0)) : "";
}

/* who_asks distinguishes R's read-eval-print loop from other callers. The loop reports just before
 * that it is no longer busy, and its prompt is, as a pointer, an option's or the browser's own.
 * Other callers do at most one of the two: a download reports that it is over, or a prompt has the
 * same text as the browser's. */
static asker who_asks(const char *prompt, bool loop) {
	if (!loop)
		return READER;
	const char *first = option("prompt"), *more = option("continue");
	if (prompt == first && prompt == more) /* both prompts are the same string: decide by the events since the last line */
		return evaluated || blank ? TOP : CONTINUATION;
	if (prompt == first || prompt == more)
		return prompt == first ? TOP : CONTINUATION;
	return prompt == browsers || browsers == NULL ? BROWSER : READER;
}

static void send_end(void) {
	if (ended || forked)
		return;
	ended = true;
	terminal_flush();
	frame *f = send_begin("session_end", state.why != NULL ? 3 : 2, true);
	put_text(f, "reason", state.why != NULL ? "protocol_error" : end_reason);
	put_int(f, "code", end_status);
	if (state.why != NULL)
		put_text(f, "message", state.why);
	send_frame(f, NULL, 0);
}

/* quit ends R as q("no") does: .Last, finalizers, the temporary directory. */
static void quit(void) {
	static bool tried; /* after an error in .Last, R comes back here */
	bool run_last = !tried;
	tried = true;
	end_reason = "shutdown"; /* user code may have tried to quit before */
	end_status = state.why != NULL;
	r_cleanup(SA_NOSAVE, end_status, run_last);
	exit(end_status);
}

/* message_of returns the message after the call in the text of an error. The call may have colons in
 * strings and names: " in f(\"a : b\") : no such thing", ":\n! of rlang". */
static const char *message_of(const char *head) {
	char quote = 0;
	if (*head == ':')
		return head + 1;
	for (const char *at = head; *at != 0; at++)
		if (quote != 0 && *at == '\\' && at[1] != 0)
			at++;
		else if (quote != 0)
			quote = *at == quote ? 0 : quote;
		else if (strchr("\"'`", *at) != NULL)
			quote = *at;
		else if (strncmp(at, " : ", 3) == 0 || strncmp(at, ":\n", 2) == 0)
			return at + 2;
	return NULL;
}

static void put_error(frame *f, const char *name, size_t name_n, const char *message, size_t n) {
	while (n > 0 && strchr(" \n", message[n - 1]) != NULL)
		n--;
	put_map_head(f, "error", 2);
	put_text_n(f, "name", name, name_n, 256);
	put_text_n(f, "message", message, n, MAX_TEXT);
}

/* error_fields puts name and message of R's last error: "Error in f(x) : no such thing".
 * While R handles another error, the text is the message alone. */
static void error_fields(frame *f, const char *text) {
	size_t n = strlen(text), name = strcspn(text, " :");
	const char *message = message_of(text + name);
	if (message == NULL)
		message = text, name = 0;
	else
		message += strspn(message, " \n");
	put_error(f, name > 0 ? text : "Error", name > 0 ? name : 5, message, n - (size_t)(message - text));
}

/* new_error reports whether R's last error has changed since the previous call. */
static bool new_error(void) {
	static char last[256];
	const char *error = has(R_curErrorBuf) ? R_curErrorBuf() : "";
	bool other = strncmp(error, last, sizeof last - 1) != 0;
	snprintf(last, sizeof last, "%s", error);
	return other;
}

/* finish ends the turn. It is called without the lock. */
static void finish(void) {
	bool other_error = new_error(), waits = interrupt_waits(); /* before our own code takes it */
	if (state.cell)
		code_end_cell();
	else
		code_finish();
	terminal_flush();

	take(&state.lock);
	/* An error of R's. R stores a traceback of each that reaches the top level, and of interrupts. */
	bool own = state.complained || (!state.interrupted && (other_error || (!signalled && mark_moved(&trace))));
	bool failed = reset && (own || !(left || state.interrupted || signalled)); /* otherwise the code returned to the top level by itself */
	bool cut_short = (reset && !left) || state.unrun > 0 ||
		(state.interrupted && (!state.started || waits || interrupt_pending())); /* a child or a read has taken it */
	uint64_t turn = state.turn, unrun = state.unrun;
	state.active = false; /* from here on no interrupt is raised for it */
	state.unrun = 0;
	interrupt_discard();
	leave(&state.lock);

	reset = signalled = false;
	const char *more = option("continue");
	bool unusual = *more != 0 && strcmp(more, "+ ") != 0;
	frame *f = send_begin("idle", 3 + unusual + failed + (unrun > 0), true);
	put_uint(f, "turn", turn);
	put_text(f, "prompt", option("prompt"));
	if (unusual)
		put_text(f, "continuation", more);
	put_text(f, "outcome", failed ? "error" : cut_short ? "interrupted" : "ok");
	if (failed && own && *said != 0)
		put_error(f, "Error", 5, said, strlen(said));
	else if (failed)
		error_fields(f, own && has(R_curErrorBuf) ? R_curErrorBuf() : "R went back to its top level without a message");
	if (unrun > 0)
		put_uint(f, "unrun", unrun);
	send_frame(f, NULL, 0);
}

/* ask sends stdin_wait. It is called with the lock and returns with it, but releases it in between. */
static void ask(asker who, const char *prompt, bool secret) {
	uint64_t seq = state.seq;
	leave(&state.lock);
	code_finish();
	terminal_flush();
	take(&state.lock);
	if (state.seq != seq) { /* our own code may have swallowed the interrupt */
		interrupt_again(state.level > 1);
		return;
	}
	if (interrupt_pending() || any(&state.answer) || state.ending)
		return; /* another request has arrived */
	if (who == BROWSER && reset && state.unrun == 0) { /* an error in a line for the browser does not end the turn */
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
	put_text(f, "kind", who == BROWSER ? "debugger" : who == CONTINUATION ? "continue" : secret ? "secret" : "line");
	put_text(f, "want", "line");
	send_frame(f, NULL, 0);
}

/* is_leave reports whether a line is the Q of a browser, or cancels q(). After it, nothing that the
 * user wanted is skipped. */
static bool is_leave(asker who, const char *prompt, const char *at, size_t n) {
	if (who == READER)
		return strncmp(prompt, "Save workspace image?", 21) == 0 && (*at == 'c' || *at == 'C');
	if (who != BROWSER)
		return false;
	while (n > 0 && (*at == ' ' || *at == '\t'))
		at++, n--;
	return n > 0 && *at == 'Q' && is_blank(at + 1, n - 1);
}

/* in_browser reports whether the browser asks, for a first line or a continuation. */
static bool in_browser(asker who) { return who == BROWSER || (who == CONTINUATION && last_taker == BROWSER); }

/* take_line takes a line, or as much of it as fits. It is called with the lock. */
static int take_line(lines *from, asker who, const char *prompt, unsigned char *to, size_t room) {
	const char *at = from->at + from->from;
	size_t n = line_length(from);
	bool whole = n <= room - 1, first = !from->midline, answer = from == &state.answer;
	if (!whole)
		for (n = room - 1; n > 1 && (at[n] & 0xc0) == 0x80;)
			n--; /* cut between characters */
	memcpy(to, at, n);
	memset(to + n, 0, room - n); /* after an incomplete line, R reads on past the first zero */
	if (!state.started && !state.interrupted)
		interrupt_discard(); /* a SIGINT from before the turn */
	from->taken += first;
	if ((who == READER || in_browser(who)) && first) {
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
	loop_next = who != READER;
	if (who != CONTINUATION)
		last_taker = who;
	from->from += n;
	from->midline = !whole;
	state.started = true;
	if (answer && state.secret) /* no copy of the secret may stay */
		memset(from->at + from->from - n, 0, n);
	return 1;
}

/* attend runs our own code before R gets a line, and returns its result. An interrupt that our code
 * swallows was meant for user code. */
static bool attend(bool (*code)(void)) {
	take(&state.lock);
	uint64_t seq = state.seq;
	leave(&state.lock);
	bool said = code();
	take(&state.lock);
	if (state.active && state.seq > seq)
		interrupt_again(state.level > 1);
	leave(&state.lock);
	return said;
}

static void reset_console(void);

static int read_console(const char *prompt, unsigned char *to, int room, int history) {
	if (forked) {
		if (history)
			_exit(0); /* a fork that returned from its code: a normal exit of R would remove the parent's files */
		return 0;
	}
	if (crashed && !history) {
		memcpy(to, "1\n", 3); /* "abort": the process dies of its signal */
		return 1;
	}
	if (learning) {
		learning = loop_asks = false;
		browsers = prompt;
		return 0; /* R continues */
	}
	interrupt_mend();
	asker who = who_asks(prompt, loop_asks);
	loop_asks = false;
	if (who == TOP && going && erred)
		reset_console(); /* R did not, because options(error) failed, too */
	if (who == TOP && !ready) {
		code_load();
		ready = true;
		code_listen();
	}
	if (who == TOP)
		terminal_waits();
	terminal_echo(false);
	if (who == READER || in_browser(who))
		terminal_flush(); /* before its input_line */
	bool secret = who == READER && terminal_hides();
	bool own = secret || (who == READER && program && attend(code_asks)); /* its answer is not a line of the input */
	/* A handler in options(error) asks before R returns to its top level. */
	bool handles = (who == READER || who == BROWSER) && erred && !keep_going && Rf_GetOption1(Rf_install("error")) != R_NilValue;
	for (;;) {
		if (who == TOP && call_list_changed())
			attend(code_functions);
		if (who == TOP)
			attend(code_width);
		take(&state.lock);
		state.waiting = NO_ASKER;
		if (handles)
			drop_input();
		if (interrupt_forced()) {
			leave(&state.lock);
			Rf_jump_to_toplevel();
		}
		if (state.ending && who == TOP) {
			interrupt_discard(); /* .Last must not get it */
			leave(&state.lock);
			quit();
		}
		if (who == BROWSER && state.interrupted && reset && last_taker != BROWSER && !any(&state.answer) && !any(&state.input))
			leave_browser(); /* the interrupt came while the browser started */
		if (any(&state.answer) || (any(&state.input) && !own)) {
			int n = take_line(any(&state.answer) ? &state.answer : &state.input, who, prompt, to, (size_t)room);
			leave(&state.lock);
			return n;
		}
		static bool end_reported;
		if (state.ending && who != TOP && end_reported) {
			leave(&state.lock);
			Rf_jump_to_toplevel(); /* the caller asks again and again */
		}
		end_reported = end_reported || (state.ending && who != TOP);
		if ((who == CONTINUATION && !in_browser(who)) || state.end_of_file || (who != TOP && (state.ending || !state.active))) {
			/* To R this is the end of its input: of an expression that has none, an
			 * error; of a browser, to go on. The rest of a browser's line is asked for:
			 * the supervisor has the answer's next line. */
			state.end_of_file = false;
			leave(&state.lock);
			return 0;
		}
		if (who == TOP && state.active) {
			leave(&state.lock);
			finish();
			continue;
		}
		if (who == TOP && state.queried) {
			state.queried = false;
			state.answering = true;
			state.seq = 0;
			message q = state.query;
			leave(&state.lock);
			code_answer(&q);
			continue;
		}
		if (who != TOP && !state.asked && !interrupt_pending()) {
			ask(who, prompt, secret);
			if (!state.asked) {
				leave(&state.lock);
				if (!interrupt_pending())
					continue;
				take(&state.lock);
			}
		}
		state.waiting = who;
		leave(&state.lock);
		/* R's own event loop: its help server, timers of packages, windows. An interrupt
		 * jumps out of it. */
		terminal_flush(); /* the callback of a package may have left text */
		resting = who == TOP;
		main_wait();
		resting = false;
		take(&state.lock);
		state.waiting = NO_ASKER;
		leave(&state.lock);
		if (main_events() && who == TOP && !state.active)
			code_finish(); /* a callback may have drawn */
	}
}

/* console_error receives the message of an uncaught error. R itself may know less of it: rlang prints
 * its error, then makes R raise one without a message. */
void console_error(const char *message) {
	if (!forked && !code_running())
		snprintf(said, sizeof said, "%s", message);
}

bool console_ending(void) {
	take(&state.lock);
	bool ending = state.ending;
	leave(&state.lock);
	return ending;
}

uint64_t console_turn(void) {
	take(&state.lock);
	uint64_t turn = state.active ? state.turn : 0;
	leave(&state.lock);
	return turn;
}

void console_went_on(bool again) {
	tells = again;
	going = false;
	loop_next = true; /* of the same line */
	if (echo.pair != NULL && mark_moved(&echo))
		SET_VECTOR_ELT(echo.pair, 0, R_NilValue); /* it may be large */
}

void console_answered(void) {
	take(&state.lock);
	state.answering = false;
	leave(&state.lock);
	interrupt_discard();
}

/* ---- writing */

/* console_tick writes delayed text and repeats an interrupt that had no effect. */
int console_tick(bool fresh) {
	take(&state.lock);
	bool busy = state.active && !state.asked;
	int chase = interrupt_chase(); /* with the lock, so that no turn ends in between */
	leave(&state.lock);
	if (!busy)
		return chase;
	int delay = terminal_tick(fresh);
	return chase >= 0 && (delay < 0 || chase < delay) ? chase : delay;
}

/* show_page sends new drawings by code_page. If our code swallows an interrupt, the interrupt is
 * raised again, because it was meant for user code. */
static void show_page(bool midline, bool value) {
	take(&state.lock);
	uint64_t seq = state.seq;
	bool waits = interrupt_waits();
	leave(&state.lock);
	if (code_page(midline, value))
		return;
	take(&state.lock);
	if (waits || state.seq != seq)
		interrupt_again(state.level > 1);
	leave(&state.lock);
}

/* console_value shows the rich forms of an echoed value. A value without text has been printed
 * elsewhere, or not at all, as by data.table after `:=`. An interrupt that this function swallows was
 * meant for user code. */
void console_value(SEXP value) {
	terminal_echo(false);
	evaluates = false;
	take(&state.lock);
	uint64_t seq = state.seq;
	bool waits = interrupt_waits(), silent = state.silent;
	leave(&state.lock);
	if (silent || (echo.promise != NULL && !echoed) || code_value(value))
		return;
	take(&state.lock);
	if (waits || state.seq != seq)
		interrupt_again(state.level > 1);
	leave(&state.lock);
}

static void write_console(const char *text, int n, int type) {
	ends_here();
	if (n <= 0 || code_running() || resting) /* resting: the newline of a stray SIGINT */
		return;
	static bool midline;
	written++;
	bool echoes = type == 0 && !forked && evaluates && mark_moved(&echo); /* R sets .Last.value before it echoes */
	if (!forked)
		show_page(midline, echoes && !echoing);
	bool begins = echoes && !echoed;
	echoing = echoes;
	echoed = echoed || echoes;
	midline = text[n - 1] != '\n';
	newline = type != 0 && n == 1 && !midline;
	if (type == 0) {
		if (!forked) {
			interrupt_due();
			if (begins)
				terminal_begin_echo();
			else
				terminal_echo(echoes);
		}
		terminal_text(text, (size_t)n);
		return;
	}
	if (forked) {
		terminal_error(text, (size_t)n, false);
		return;
	}
	if (strncmp(text, "\n *** caught ", 13) == 0)
		crashed = true;
	bool report = has(R_curErrorBuf) && strncmp(R_curErrorBuf(), text, (size_t)n) == 0;
	if (report) {
		take(&state.lock);
		state.complained = true;
		leave(&state.lock);
		erred = true;
		*said = 0;
	}
	terminal_error(text, (size_t)n, report);
}

static void show_message(const char *text) {
	write_console(text, (int)strlen(text), 1);
	write_console("\n", 1, 1);
}

/* ---- the rest */

static void flush_console(void) { terminal_flush(); }
static void clear_console(void) {}

static void busy(int which) {
	if (!which) {
		loop_asks = true;
		if (has(R_NoEcho))
			R_NoEcho = 0; /* otherwise R passes an empty prompt to every caller; the option itself stays */
		return;
	}
	if (!loop_next && tells)
		return; /* a download, in the middle of an expression */
	loop_next = false;
	evaluated = true;
	newline = false;
	going = tells && last_taker == TOP;
	if (!forked) {
		mark_set(&echo);
		mark_set(&trace);
		evaluates = true;
		echoing = echoed = false;
		*said = 0;
		interrupt_due();
	}
}

/* reset_console is called at every jump to the top level: errors, interrupts, Q. */
static void reset_console(void) {
	ends_here();
	evaluated = true;
	going = false;
	if (forked || code_running())
		return;
	evaluates = false;
	terminal_echo(false);
	take(&state.lock);
	resting = false;
	state.asked = false;
	state.waiting = NO_ASKER;
	if (state.active && (state.started || state.interrupted)) { /* otherwise a SIGINT from before the turn */
		reset = true;
		signalled = signalled || newline;
		newline = false;
		if (!keep_going || state.interrupted)
			drop_lines();
	}
	leave(&state.lock);
}

static void clean_up(int save, int status, int run_last) {
	if (forked) { /* R would clean up for its parent: the temporary directory, .Last */
		terminal_flush();
		_exit(status);
	}
	if (!state.ending) {
		end_reason = save == SA_SUICIDE ? "crash" : "exit";
		end_status = status;
		if (save != SA_SUICIDE && !code_running())
			code_finish();
	}
	/* R has ended already, so it must not ask whether to save. */
	r_cleanup(save == SA_DEFAULT ? SA_NOSAVE : save, status, run_last);
}

void console_end(void) { send_end(); }

void console_learn_browser(bool on) { learning = on; }

const char *console_install(bool go_on, bool whole, const char *home) {
	static const calls ours = {
		.read = read_console, .write = write_console, .message = show_message, .busy = busy, .clean_up = clean_up,
		.flush = flush_console, .clear = clear_console, .reset = reset_console};
	keep_going = go_on;
	program = whole;
	return r_take_over(&ours, home, &r_cleanup);
}
