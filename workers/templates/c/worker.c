/*
 * A worker in C: a desk calculator with variables, loops, input and a shell.
 *
 * It has one thread, and signal handlers do no work. Everything that takes time (a loop, a sleep,
 * a wait for an answer or for a child) polls the channel (look), and an interrupt leaves the turn
 * from there. The worker therefore signals its own process group to interrupt its children.
 *
 * The first half is the protocol, the second half the language, which you replace. Build it with
 *
 *     cc -O2 -o worker worker.c -lm
 *
 * It needs a C compiler on Linux or macOS, and no libraries.
 */
#define _XOPEN_SOURCE 700
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FRAME = 64 << 20, MAX_DEPTH = 16, MAX_TEXT = 4000 };

/* A slice refers to bytes that it does not own. */
struct slice {
	const char *at;
	size_t n;
};

static struct slice slice_of(const char *s) { return (struct slice){s, strlen(s)}; }

static int same(struct slice s, const char *word) { return s.n == strlen(word) && memcmp(s.at, word, s.n) == 0; }

/* A buffer owns its bytes. */
struct buffer {
	char *at;
	size_t n, room;
};

static void add(struct buffer *b, const void *bytes, size_t n) {
	if (n == 0)
		return;
	if (b->room - b->n < n) {
		b->room = b->n + n + b->room;
		if ((b->at = realloc(b->at, b->room)) == NULL)
			abort();
	}
	memcpy(b->at + b->n, bytes, n);
	b->n += n;
}

static int in, out, terminal, children[2]; /* children: a pipe with a byte for each child that has exited */
static char nonce[32];
static uint64_t marks, waits, turn, acted; /* turn: the active turn; acted: its last handled interrupt */

/* ---- Writing: MessagePack, in the longest form of each type */

static struct buffer frame; /* the frame that is being written */
static uint32_t fields;

static void put(int code, uint64_t v, int size) {
	unsigned char b[9] = {(unsigned char)code};
	for (int i = 0; i < size; i++)
		b[1 + i] = (unsigned char)(v >> 8 * (size - 1 - i));
	add(&frame, b, 1 + (size_t)size);
}

/* valid returns the length of the character at s, or 0 if it is not UTF-8. */
static size_t valid(const char *s, size_t n) {
	const unsigned char *b = (const unsigned char *)s;
	size_t size = b[0] < 0x80 ? 1 : b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;
	if (size > n)
		return 0;
	for (size_t i = 1; i < size; i++)
		if ((b[i] & 0xc0) != 0x80)
			return 0;
	if (size > 2 && ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) || (b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f)))
		return 0;
	return size;
}

static void put_text(struct slice s) {
	size_t head = frame.n;
	put(0xdb, 0, 4);
	for (size_t i = 0; i < s.n;) {
		size_t size = valid(s.at + i, s.n - i);
		add(&frame, size ? s.at + i : "?", size ? size : 1);
		i += size ? size : 1;
	}
	uint32_t n = (uint32_t)(frame.n - head - 5);
	for (int i = 0; i < 4; i++)
		frame.at[head + 1 + (size_t)i] = (char)(n >> 8 * (3 - i));
}

static void key(const char *name) {
	fields++;
	put_text(slice_of(name));
}

static void put_uint(const char *name, uint64_t v) { key(name), put(0xcf, v, 8); }
static void put_int(const char *name, int64_t v) { key(name), put(0xd3, (uint64_t)v, 8); }
static void put_bool(const char *name, int v) { key(name), put(v ? 0xc3 : 0xc2, 0, 0); }
static void put_word(const char *name, const char *v) { key(name), put_text(slice_of(v)); }
static void put_slice(const char *name, struct slice v) { key(name), put_text(v); }
static void put_map(const char *name, uint32_t n) { key(name), put(0xdf, n, 4); }
static void put_array(const char *name, size_t n) { key(name), put(0xdd, n, 4); }

static void write_all(int fd, const void *bytes, size_t n) {
	for (const char *b = bytes; n > 0;) {
		ssize_t k = write(fd, b, n);
		if (k < 0 && errno == EAGAIN)
			poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
		else if (k < 0 && errno != EINTR)
			_exit(1); /* the peer is gone */
		else if (k > 0)
			b += k, n -= (size_t)k;
	}
}

static void begin(const char *type) {
	frame.n = 0, fields = 0;
	put(0, 0, 3); /* the length */
	put(0xdf, 0, 4);
	put_word("type", type);
}

/* send writes the frame. If it has a position in the text, its marker is written first. */
static void send(int marked) {
	if (marked) {
		char marker[64];
		put_uint("mark", ++marks);
		int n = snprintf(marker, sizeof marker, "\033_%s;#%llu\033\\", nonce, (unsigned long long)marks);
		write_all(terminal, marker, (size_t)n);
	}
	uint32_t n = (uint32_t)frame.n - 4, count = fields;
	for (int i = 0; i < 4; i++) {
		frame.at[i] = (char)(n >> 8 * (3 - i));
		frame.at[5 + i] = (char)(count >> 8 * (3 - i));
	}
	write_all(out, frame.at, frame.n);
}

static void finish(const char *reason, int status, const char *message) {
	begin("session_end");
	put_word("reason", reason);
	if (strcmp(reason, "exit") == 0)
		put_int("code", status);
	if (message != NULL)
		put_word("message", message);
	send(1);
	_exit(status);
}

static void refuse(const char *why) { finish("protocol_error", 1, why); }

/* print writes to standard output, complain to standard error. */
static void print(struct slice s) { write_all(1, s.at, s.n); }

static void complain(const char *text) {
	static struct buffer b;
	char head[64];
	b.n = 0;
	add(&b, head, (size_t)snprintf(head, sizeof head, "\033_%s;E\033\\", nonce));
	add(&b, text, strlen(text));
	add(&b, head, (size_t)snprintf(head, sizeof head, "\n\033_%s;O\033\\", nonce));
	write_all(terminal, b.at, b.n); /* in one call, so that no other output comes in between */
}

/* ---- Reading */

/* A message is a decoded frame. Fields that do not belong to its type are zero. */
struct message {
	struct slice type, input, kind, text;
	uint64_t turn, wait, seq, id, cursor;
	int eof;
	unsigned seen; /* a bit for each field below */
};

enum { TYPE = 1, INPUT = 2, KIND = 4, TEXT = 8, TURN = 16, WAIT = 32, SEQ = 64, ID = 128, CURSOR = 256, END = 512 };

struct reader {
	const unsigned char *at, *end;
};

static uint64_t number(struct reader *r, size_t size) {
	uint64_t v = 0;
	if ((size_t)(r->end - r->at) < size)
		refuse("a value is truncated");
	while (size-- > 0)
		v = v << 8 | *r->at++;
	return v;
}

enum kind { NIL, BOOL, UINT, OTHER, STR, BIN, LIST, MAP };

/* A head is the beginning of a value: its kind, and its content or size. */
struct head {
	enum kind kind;
	uint64_t n;       /* the number; for a list or a map the number of entries that follow */
	struct slice bytes; /* content of texts and bins */
};

static struct head head_of(struct reader *r) {
	unsigned c = (unsigned)number(r, 1);
	struct head h = {OTHER, 0, {NULL, 0}};
	if (c < 0x80)
		h.kind = UINT, h.n = c;
	else if (c < 0x90 || c == 0xde || c == 0xdf)
		h.kind = MAP, h.n = c < 0x90 ? c & 15 : number(r, c == 0xde ? 2 : 4);
	else if (c < 0xa0 || c == 0xdc || c == 0xdd)
		h.kind = LIST, h.n = c < 0xa0 ? c & 15 : number(r, c == 0xdc ? 2 : 4);
	else if (c < 0xc0 || (c >= 0xd9 && c <= 0xdb))
		h.kind = STR, h.bytes.n = c < 0xc0 ? c & 31 : number(r, (size_t)1 << (c - 0xd9));
	else if (c >= 0xc4 && c <= 0xc6)
		h.kind = BIN, h.bytes.n = number(r, (size_t)1 << (c - 0xc4));
	else if (c >= 0xcc && c <= 0xcf)
		h.kind = UINT, h.n = number(r, (size_t)1 << (c - 0xcc));
	else if (c >= 0xd0 && c <= 0xd3) {
		size_t size = (size_t)1 << (c - 0xd0);
		h.n = number(r, size);
		h.kind = h.n >> (8 * size - 1) ? OTHER : UINT; /* no field has negative numbers */
	} else if (c == 0xca || c == 0xcb)
		number(r, c == 0xca ? 4 : 8);
	else if (c == 0xc2 || c == 0xc3)
		h.kind = BOOL, h.n = c & 1;
	else if (c == 0xc0)
		h.kind = NIL;
	else if (c < 0xe0)
		refuse("a byte does not begin a value");
	if (h.kind == STR || h.kind == BIN) {
		if ((size_t)(r->end - r->at) < h.bytes.n)
			refuse("a value is truncated");
		h.bytes.at = (const char *)r->at;
		r->at += h.bytes.n;
		for (size_t i = 0, size; h.kind == STR && i < h.bytes.n; i += size)
			if ((size = valid(h.bytes.at + i, h.bytes.n - i)) == 0)
				refuse("a text is not UTF-8");
	}
	return h;
}

/* skip reads the rest of a value that is not needed. */
static void skip(struct reader *r, struct head h, int depth) {
	if (h.kind != LIST && h.kind != MAP)
		return;
	if (depth > MAX_DEPTH)
		refuse("a value is nested too deep");
	for (uint64_t i = 0; i < h.n * (h.kind == MAP ? 2 : 1); i++)
		skip(r, head_of(r), depth + 1);
}

static struct message message_of(struct slice b) {
	struct reader r = {(const unsigned char *)b.at, (const unsigned char *)b.at + b.n};
	struct message m = {.seen = 0};
	struct head map = head_of(&r);
	if (map.kind != MAP || map.n > 64)
		refuse("a frame is not a map of up to 64 fields");
	const struct {
		const char *name;
		unsigned bit;
		enum kind kind;
		void *to;
	} known[] = {
		{"type", TYPE, STR, &m.type}, {"input", INPUT, BIN, &m.input}, {"kind", KIND, STR, &m.kind}, {"text", TEXT, STR, &m.text},
		{"turn", TURN, UINT, &m.turn}, {"wait", WAIT, UINT, &m.wait}, {"seq", SEQ, UINT, &m.seq}, {"id", ID, UINT, &m.id},
		{"cursor", CURSOR, UINT, &m.cursor}, {"eof", END, BOOL, &m.eof},
	};
	for (uint64_t i = 0; i < map.n; i++) {
		struct head name = head_of(&r), value;
		if (name.kind != STR)
			refuse("a key is not a text");
		value = head_of(&r);
		skip(&r, value, 2);
		for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
			if (!same(name.bytes, known[k].name))
				continue;
			if (m.seen & known[k].bit || value.kind != known[k].kind)
				refuse("a field is duplicate or has the wrong type");
			m.seen |= known[k].bit;
			if (value.kind == UINT)
				*(uint64_t *)known[k].to = value.n;
			else if (value.kind == BOOL)
				*(int *)known[k].to = (int)value.n;
			else
				*(struct slice *)known[k].to = value.bytes;
		}
	}
	if (r.at != r.end)
		refuse("bytes after the map");
	const struct {
		const char *type;
		unsigned needs;
	} types[] = {
		{"turn_start", TURN | INPUT}, {"turn_input", TURN | WAIT | INPUT | END}, {"interrupt", TURN | SEQ},
		{"query", ID | KIND | TEXT | CURSOR}, {"shutdown", 0},
	};
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (same(m.type, types[i].type) && (m.seen & types[i].needs) == types[i].needs)
			return m;
	refuse("a message is unknown or lacks a field");
	return m;
}

static struct buffer unread;
static size_t taken; /* consumed bytes of unread; slices of them are valid until the next receive */

/* receive returns true with the next message. It waits for at most ms milliseconds; -1 means no
 * limit. It also returns when a child has exited. The end of the channel ends the worker. */
static int receive(struct message *m, int ms) {
	for (;;) {
		if (taken > 0)
			memmove(unread.at, unread.at + taken, unread.n -= taken);
		taken = 0;
		if (unread.n >= 4) {
			const unsigned char *b = (const unsigned char *)unread.at;
			size_t size = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
			if (size > MAX_FRAME)
				refuse("a frame is too long");
			if (unread.n >= 4 + size) {
				taken = 4 + size;
				*m = message_of((struct slice){unread.at + 4, size});
				return 1;
			}
		}
		struct pollfd fds[] = {{.fd = in, .events = POLLIN}, {.fd = children[0], .events = POLLIN}};
		char b[1 << 16];
		int ready = poll(fds, 2, ms);
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready > 0 && fds[0].revents) {
			ssize_t n = read(in, b, sizeof b);
			if (n > 0)
				add(&unread, b, (size_t)n);
			else if (n == 0 || errno != EINTR)
				_exit(0);
			continue;
		}
		if (ready > 0)
			while (read(children[0], b, sizeof b) > 0)
				;
		return 0;
	}
}

/* ---- Turns */

enum stop { RAN, FAILED, INTERRUPTED, ENDING }; /* how a turn ended */

static jmp_buf over;
static char failure[MAX_TEXT]; /* the error message of FAILED */

/* take handles a message other than turn_start. It may leave the turn. */
static void take(const struct message *m) {
	if (same(m->type, "interrupt")) {
		int active = turn > 0 && m->turn == turn;
		begin("interrupt_ack");
		put_uint("turn", m->turn), put_uint("seq", m->seq), put_word("result", active ? "raised" : "stale");
		send(0);
		if (active && m->seq > acted) {
			acted = m->seq;
			kill(0, SIGINT); /* the children */
			longjmp(over, INTERRUPTED);
		}
	} else if (same(m->type, "shutdown")) {
		if (turn > 0) {
			kill(0, SIGINT);
			longjmp(over, ENDING);
		}
		finish("shutdown", 0, NULL);
	} else if (!same(m->type, "turn_input")) /* a late turn_input answers a wait that is over */
		refuse("a turn or a query arrived during a turn");
}

/* look handles the messages that have arrived, and waits for one for at most ms milliseconds. */
static void look(int ms) {
	struct message m;
	while (receive(&m, ms)) {
		take(&m);
		ms = 0;
	}
}

/* fail ends the turn with an error. */
static void fail(const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(failure, sizeof failure, format, args);
	va_end(args);
	longjmp(over, FAILED);
}

/* ask returns a line of standard input, which is valid until the next message is read. */
static struct slice ask(struct slice prompt) {
	struct message m;
	uint64_t wait = ++waits;
	if (prompt.n > MAX_TEXT)
		prompt.n = MAX_TEXT;
	begin("stdin_wait");
	put_uint("turn", turn), put_uint("wait", wait), put_slice("prompt", prompt), put_word("kind", "line"), put_word("want", "line");
	send(1);
	for (;;) {
		if (!receive(&m, -1))
			continue;
		if (same(m.type, "turn_input") && m.turn == turn && m.wait == wait)
			break;
		take(&m);
	}
	if (m.eof && m.input.n == 0)
		fail("end of file");
	while (m.input.n > 0 && (m.input.at[m.input.n - 1] == '\n' || m.input.at[m.input.n - 1] == '\r'))
		m.input.n--;
	begin("input_line");
	put_uint("turn", turn), put_slice("prompt", prompt), put_slice("text", m.input), put_bool("secret", 0);
	send(1);
	return m.input;
}

/* shell runs a command on the terminal, and returns its status. */
static int shell(const char *command) {
	sigset_t interrupt, before;
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupt, &before); /* so that a new child does not lose an interrupt */
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGINT, SIG_DFL);
		signal(SIGCHLD, SIG_DFL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		fail("cannot run a shell: %s", strerror(errno));
	for (int status;;) {
		pid_t ended = waitpid(pid, &status, WNOHANG);
		if (ended == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		look(-1);
	}
}

static void child_ended(int sig) {
	int before = errno;
	(void)sig;
	if (write(children[1], "", 1) < 0) { /* the pipe is full, which also wakes the reader */
	}
	errno = before;
}

static void nothing(int sig) { (void)sig; } /* frames carry the interrupts */

/* Implemented by the language, below. */
static void run(struct slice code);
static const char *judge(struct slice code);
static void answer_complete(struct slice text, uint64_t cursor);
static void answer_variables(void);
static const char *const language = "calc", *const version = "1";

/* run_turn runs an input and reports how it ended. It reads no variable that it set before a longjmp. */
static void run_turn(uint64_t number, struct slice input) {
	static struct buffer code; /* a copy, because the next message overwrites input */
	code.n = 0;
	add(&code, input.at, input.n);
	while (waitpid(-1, NULL, WNOHANG) > 0) /* children that outlived their turn */
		;
	turn = number, acted = 0;
	int stop = setjmp(over);
	if (stop == RAN)
		run((struct slice){code.at, code.n});
	uint64_t ended = turn;
	turn = 0;
	if (stop == ENDING)
		finish("shutdown", 0, NULL);
	if (stop == FAILED)
		complain(failure);
	begin("idle");
	put_uint("turn", ended), put_word("prompt", "> ");
	put_word("outcome", stop == RAN ? "ok" : stop == FAILED ? "error" : "interrupted");
	if (stop == FAILED) {
		put_map("error", 2);
		put_word("name", "Error"), put_word("message", failure);
		fields -= 2; /* the fields of the nested map */
	}
	send(1);
}

static void answer(const struct message *m) {
	begin("query_result");
	put_uint("id", m->id);
	put_word("status", same(m->kind, "parse") ? judge(m->text) : "ok");
	if (same(m->kind, "complete"))
		answer_complete(m->text, m->cursor);
	else if (same(m->kind, "variables"))
		answer_variables();
	send(0);
}

static void set_up(void) {
	const char *ends = getenv("REPL_IPC");
	if (ends == NULL || sscanf(ends, "%d,%d,%31s", &in, &out, nonce) != 3) {
		fprintf(stderr, "REPL_IPC is not set: a supervisor starts this program, as repl worker check ./worker does\n");
		exit(2);
	}
	unsetenv("REPL_IPC");
	terminal = dup(1);
	if (terminal < 0 || pipe(children) < 0)
		exit(1);
	const int ours[] = {in, out, terminal, children[0], children[1]};
	for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
		fcntl(ours[i], F_SETFD, FD_CLOEXEC);
	for (int i = 0; i < 2; i++)
		fcntl(children[i], F_SETFL, O_NONBLOCK);
	sigaction(SIGINT, &(struct sigaction){.sa_handler = nothing, .sa_flags = SA_RESTART}, NULL);
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = child_ended, .sa_flags = SA_RESTART | SA_NOCLDSTOP}, NULL);
}

int main(int argc, char **argv) {
	(void)argc;
	set_up();
	begin("worker_ready");
	put_map("protocol", 2);
	put_word("name", "turnstone-worker"), put_uint("version", 1);
	put_map("worker", 6);
	put_word("name", language), put_word("version", "1"), put_word("language", language), put_word("runtime_version", version);
	put_word("executable", argv[0]), put_uint("pid", (uint64_t)getpid());
	put_map("capabilities", 5);
	put_bool("images", 0), put_bool("fence", 1), put_bool("query", 1), put_bool("variables", 1), put_word("interrupt", "self");
	fields -= 2 + 6 + 5; /* the fields of the nested maps */
	send(0);
	begin("idle");
	put_uint("turn", 0), put_word("prompt", "> "), put_word("outcome", "ok");
	send(1);
	for (struct message m;;) {
		if (!receive(&m, -1))
			continue;
		if (same(m.type, "turn_start"))
			run_turn(m.turn, m.input);
		else if (same(m.type, "query"))
			answer(&m);
		else
			take(&m);
	}
}

/* ---- The language
 *
 *     total = 0
 *     while total < 10 { total = total + 1; if total == 5 { print "half" } }
 *     name = ask("name? ")
 *     print "hello " + name, sqrt(total)
 *
 * A value is a number or a text. Code runs while it is parsed; skipped code is parsed without
 * running it. */

struct value {
	int is_text;
	double number;
	struct slice text; /* in the arena */
};

static struct variable {
	char *name, *text; /* text is NULL for a number */
	size_t n;
	double number;
} *variables;
static size_t known_variables;

/* The arena holds the texts of the current statement; variables own copies. */
static struct block {
	struct block *next;
	char bytes[];
} *arena;

static char *allocate(size_t n) {
	struct block *b = malloc(sizeof *b + n);
	if (b == NULL)
		fail("cannot allocate %zu bytes", n);
	b->next = arena, arena = b;
	return b->bytes;
}

/* release frees what was allocated after mark. */
static void release(struct block *mark) {
	for (struct block *b; (b = arena) != mark; free(b))
		arena = b->next;
}

static const char *at, *end; /* the remaining code */
static int running, nested, brackets;
static int unfinished; /* the error is that the code ended too early */
static unsigned steps;

/* step polls the channel now and then, so that computing code can be interrupted. */
static void step(void) {
	if (running && ++steps % 256 == 0)
		look(0);
}

static void blanks(void) {
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || (brackets > 0 && *at == '\n')))
		at++;
	if (at < end && *at == '#')
		while (at < end && *at != '\n')
			at++;
}

static void lines(void) {
	for (blanks(); at < end && (*at == '\n' || *at == ';'); blanks())
		at++;
}

static void unexpected(void) {
	blanks();
	if (at == end) {
		unfinished = 1;
		fail("the code ends too early");
	}
	if (*at == '\n')
		fail("the line ends too early");
	fail("unexpected %.*s", (int)(valid(at, (size_t)(end - at)) ? valid(at, (size_t)(end - at)) : 1), at);
}

/* sign consumes a sign if it is next. */
static int sign(const char *s) {
	size_t n = strlen(s);
	blanks();
	if ((size_t)(end - at) < n || memcmp(at, s, n) != 0)
		return 0;
	at += n;
	return 1;
}

static void must(const char *s) {
	if (!sign(s))
		unexpected();
}

static struct slice name_at(const char *from) {
	const char *to = from;
	while (to < end && (isalpha((unsigned char)*to) || *to == '_' || (to > from && isdigit((unsigned char)*to))))
		to++;
	return (struct slice){from, (size_t)(to - from)};
}

static int word(const char *w) {
	blanks();
	if (!same(name_at(at), w))
		return 0;
	at += strlen(w);
	return 1;
}

static struct value expression(void);

static struct value of_number(double v) { return (struct value){0, v, {NULL, 0}}; }

static struct value of_text(const char *a, size_t n, const char *b, size_t m) {
	char *both = allocate(n + m + 1);
	memcpy(both, a, n);
	memcpy(both + n, b, m);
	both[n + m] = 0;
	return (struct value){1, 0, {both, n + m}};
}

static double numeric(struct value v) {
	if (v.is_text)
		fail("not a number: %.80s", v.text.at);
	return v.number;
}

static struct slice shown(struct value v) {
	char b[32];
	if (v.is_text)
		return v.text;
	int n = snprintf(b, sizeof b, "%.15g", v.number);
	return of_text(b, (size_t)n, "", 0).text;
}

static unsigned hexadecimal(void) {
	unsigned v = 0;
	for (int i = 0; i < 4; i++, at++) {
		if (at == end || !isxdigit((unsigned char)*at))
			fail("\\u needs four hexadecimal digits");
		v = v * 16 + (unsigned)(isdigit((unsigned char)*at) ? *at - '0' : tolower((unsigned char)*at) - 'a' + 10);
	}
	return v;
}

static size_t utf8(unsigned c, char *to) {
	if (c < 0x80)
		return to[0] = (char)c, 1;
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)((0xf00 >> n) | c);
	return n;
}

/* literal parses a text with JSON escapes. */
static struct value literal(void) {
	const char *from = at;
	char *text = allocate((size_t)(end - from) + 1); /* an escape is never shorter than its character */
	size_t n = 0;
	while (at < end && *at != '"') {
		if (*at == '\n')
			break;
		if (*at != '\\') {
			text[n++] = *at++;
			continue;
		}
		if (++at == end)
			break;
		static const char escapes[] = "b\bf\fn\nr\rt\t\"\"\\\\//";
		char c = *at++;
		if (c == 'u') {
			unsigned u = hexadecimal();
			if (u >= 0xd800 && u < 0xdc00 && end - at > 6 && at[0] == '\\' && at[1] == 'u')
				at += 2, u = 0x10000 + ((u - 0xd800) << 10) + ((hexadecimal() - 0xdc00) & 0x3ff);
			n += utf8(u, text + n);
			continue;
		}
		size_t i = 0;
		while (escapes[i] && escapes[i] != c)
			i += 2;
		if (!escapes[i])
			fail("unknown escape \\%c", c);
		text[n++] = escapes[i + 1];
	}
	if (at == end || *at != '"')
		fail("unterminated text");
	at++;
	return of_text(text, n, "", 0);
}

static struct variable *find(struct slice name) {
	for (size_t i = 0; i < known_variables; i++)
		if (same(name, variables[i].name))
			return &variables[i];
	return NULL;
}

static void assign(struct slice name, struct value v) {
	struct variable *to = find(name);
	if (to == NULL) {
		variables = realloc(variables, (known_variables + 1) * sizeof *variables);
		to = &variables[known_variables++];
		*to = (struct variable){.name = calloc(1, name.n + 1)};
		memcpy(to->name, name.at, name.n);
	}
	free(to->text);
	to->text = NULL, to->number = v.number, to->n = v.text.n;
	if (v.is_text) {
		to->text = malloc(v.text.n + 1);
		memcpy(to->text, v.text.at, v.text.n);
		to->text[v.text.n] = 0;
	}
}

static struct value do_ask(struct value v) {
	struct slice line = ask(shown(v));
	return of_text(line.at, line.n, "", 0);
}

static struct value do_shell(struct value v) { return of_number(shell(shown(v).at)); }

static struct value do_sleep(struct value v) {
	struct timespec now, until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	double seconds = fmin(fmax(numeric(v), 0), 1e9);
	until.tv_sec += (time_t)seconds;
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		double left = (double)(until.tv_sec - now.tv_sec) + (seconds - floor(seconds)) + (double)(until.tv_nsec - now.tv_nsec) / 1e9;
		if (left <= 0)
			return of_number(0);
		look((int)fmin(ceil(left * 1000), 60000));
	}
}

static struct value do_exit(struct value v) {
	double status = numeric(v);
	if (!(status >= 0 && status < 256))
		fail("a status must be from 0 to 255");
	finish("exit", (int)status, NULL);
	return v;
}

static struct value do_number(struct value v) {
	char *rest;
	if (!v.is_text)
		return v;
	double number = strtod(v.text.at, &rest);
	if (rest == v.text.at || *rest)
		fail("not a number: %.80s", v.text.at);
	return of_number(number);
}

static const struct {
	const char *name;
	double (*of)(double);
	struct value (*call)(struct value);
} functions[] = {
	{"abs", fabs, NULL}, {"ask", NULL, do_ask}, {"ceil", ceil, NULL}, {"cos", cos, NULL}, {"exit", NULL, do_exit},
	{"exp", exp, NULL}, {"floor", floor, NULL}, {"ln", log, NULL}, {"number", NULL, do_number}, {"shell", NULL, do_shell},
	{"sin", sin, NULL}, {"sleep", NULL, do_sleep}, {"sqrt", sqrt, NULL}, {"tan", tan, NULL},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static struct value call(struct slice name) {
	size_t i = 0;
	while (i < FUNCTIONS && !same(name, functions[i].name))
		i++;
	if (i == FUNCTIONS)
		fail("unknown function: %.*s", (int)name.n, name.at);
	struct value v = {1, 0, {"", 0}};
	brackets++;
	if (!sign(")")) {
		v = expression();
		must(")");
	}
	brackets--;
	if (!running)
		return of_number(0);
	return functions[i].call ? functions[i].call(v) : of_number(functions[i].of(numeric(v)));
}

static struct value primary(void) {
	struct value v;
	blanks();
	if (at < end && (isdigit((unsigned char)*at) || *at == '.')) {
		char digits[64], *rest;
		size_t n = (size_t)(end - at) < sizeof digits - 1 ? (size_t)(end - at) : sizeof digits - 1;
		memcpy(digits, at, n);
		digits[n] = 0;
		v = of_number(strtod(digits, &rest));
		if (rest == digits)
			unexpected();
		at += rest - digits;
		return v;
	}
	if (sign("\""))
		return literal();
	if (sign("(")) {
		brackets++;
		v = expression();
		must(")");
		brackets--;
		return v;
	}
	struct slice name = name_at(at);
	if (name.n == 0)
		unexpected();
	at += name.n;
	if (sign("("))
		return call(name);
	struct variable *known = find(name);
	if (!running)
		return of_number(0);
	if (known == NULL)
		fail("unknown name: %.*s", (int)name.n, name.at);
	return known->text ? of_text(known->text, known->n, "", 0) : of_number(known->number);
}

static struct value unary(void) {
	if (++nested > 200)
		fail("the code is nested too deep");
	struct value v;
	if (!sign("-"))
		v = primary();
	else if (v = unary(), running)
		v = of_number(-numeric(v));
	nested--;
	return v;
}

static struct value product(void) {
	for (struct value v = unary();;) {
		int times = sign("*"), by = !times && sign("/"), rest = !times && !by && sign("%");
		if (!times && !by && !rest)
			return v;
		lines();
		struct value w = unary();
		if (!running)
			continue;
		double a = numeric(v), b = numeric(w);
		if (!times && b == 0)
			fail("division by zero");
		v = of_number(times ? a * b : by ? a / b : fmod(a, b));
	}
}

static struct value sum(void) {
	for (struct value v = product();;) {
		int plus = sign("+"), minus = !plus && sign("-");
		if (!plus && !minus)
			return v;
		lines();
		struct value w = product();
		if (!running)
			continue;
		if (plus && (v.is_text || w.is_text)) {
			struct slice a = shown(v), b = shown(w);
			v = of_text(a.at, a.n, b.at, b.n);
		} else
			v = of_number(plus ? numeric(v) + numeric(w) : numeric(v) - numeric(w));
	}
}

static struct value expression(void) {
	static const char *const signs[] = {"==", "!=", "<=", ">=", "<", ">"};
	struct value v = sum();
	for (int i = 0; i < 6; i++) {
		if (!sign(signs[i]))
			continue;
		lines();
		struct value w = sum();
		if (!running)
			return v;
		double order;
		if (v.is_text && w.is_text) {
			size_t n = v.text.n < w.text.n ? v.text.n : w.text.n;
			order = memcmp(v.text.at, w.text.at, n);
			if (order == 0)
				order = (double)v.text.n - (double)w.text.n;
		} else
			order = numeric(v) - numeric(w);
		const int is[] = {order == 0, order != 0, order <= 0, order >= 0, order < 0, order > 0};
		return of_number(is[i]);
	}
	return v;
}

static void statements(int in_block);

static void block(int wanted) {
	int before = running;
	lines();
	must("{");
	if (++nested > 200)
		fail("the code is nested too deep");
	running = running && wanted;
	statements(1);
	running = before;
	nested--;
}

static int is_true(struct value v) { return v.is_text ? v.text.n > 0 : v.number != 0; }

static void while_loop(void) {
	struct block *mark = arena;
	for (const char *condition = at;;) {
		at = condition;
		int goes_on = is_true(expression()) && running;
		block(goes_on);
		release(mark);
		step();
		if (!goes_on)
			return;
	}
}

static void if_else(void) {
	int yes = is_true(expression());
	block(yes);
	const char *behind = at;
	lines();
	if (word("else"))
		block(!yes);
	else
		at = behind;
}

static void print_values(void) {
	struct slice line = {"", 0};
	do {
		lines();
		struct value v = expression();
		if (!running)
			continue;
		struct slice text = shown(v);
		if (line.n > 0)
			line = of_text(line.at, line.n, " ", 1).text;
		line = of_text(line.at, line.n, text.at, text.n).text;
	} while (sign(","));
	if (running)
		print(of_text(line.at, line.n, "\n", 1).text);
}

static void statement(void) {
	if (word("while"))
		return while_loop();
	if (word("if"))
		return if_else();
	if (word("print"))
		return print_values();
	const char *from = at;
	struct slice name = name_at(at);
	at += name.n;
	blanks();
	if (name.n > 0 && at < end && *at == '=' && (at + 1 == end || at[1] != '=')) {
		at++;
		lines();
		struct value v = expression();
		if (running)
			assign(name, v);
		return;
	}
	at = from;
	struct value v = expression();
	if (running && nested == 0) {
		print(shown(v));
		print(slice_of("\n"));
	}
}

/* statements runs code up to its end, or up to the end of a block. */
static void statements(int in_block) {
	for (;;) {
		lines();
		if (in_block && sign("}"))
			return;
		if (at == end && !in_block)
			return;
		if (at == end)
			unexpected();
		struct block *mark = arena;
		statement();
		release(mark);
		step();
		blanks();
		if (at < end && *at != '\n' && *at != ';' && !(in_block && *at == '}'))
			unexpected();
	}
}

static void read_code(struct slice code, int now) {
	at = code.at, end = code.at + code.n;
	running = now, nested = 0, brackets = 0, unfinished = 0;
	statements(0);
}

/* run runs code if every line can be parsed; otherwise it runs nothing. */
static void run(struct slice code) {
	release(NULL);
	read_code(code, 0);
	read_code(code, 1);
}

/* judge reports whether code is complete. */
static const char *judge(struct slice code) {
	int stop = setjmp(over);
	if (stop == RAN)
		read_code(code, 0);
	release(NULL);
	return stop == RAN ? "complete" : unfinished ? "incomplete" : "invalid";
}

static void answer_complete(struct slice text, uint64_t cursor) {
	static const char *const words[] = {"else", "if", "print", "while"};
	enum { WORDS = sizeof words / sizeof words[0], MOST = 200 };
	const char *to = text.at + (cursor < text.n ? cursor : text.n), *from = to, *found[MOST];
	while (from > text.at && (isalnum((unsigned char)from[-1]) || from[-1] == '_'))
		from--;
	size_t n = 0, of = (size_t)(to - from);
	for (size_t i = 0; i < WORDS + FUNCTIONS + known_variables && n < MOST; i++) {
		const char *name = i < WORDS ? words[i] : i < WORDS + FUNCTIONS ? functions[i - WORDS].name : variables[i - WORDS - FUNCTIONS].name;
		if (strncmp(name, from, of) == 0)
			found[n++] = name;
	}
	put_uint("start", (uint64_t)(from - text.at));
	if (n == 0)
		return;
	put_array("matches", n);
	for (size_t i = 0; i < n; i++)
		put_text(slice_of(found[i]));
}

static void answer_variables(void) {
	size_t n = known_variables < 200 ? known_variables : 200;
	if (n == 0)
		return;
	put_array("variables", n);
	for (size_t i = 0; i < n; i++) {
		struct variable *v = &variables[known_variables - 1 - i];
		uint32_t inside = fields;
		put(0xdf, v->text ? 3 : 2, 4);
		put_slice("name", (struct slice){v->name, strlen(v->name) < 256 ? strlen(v->name) : 256});
		put_word("type", v->text ? "text" : "number");
		if (v->text) {
			char length[32];
			snprintf(length, sizeof length, "%zu", v->n);
			put_word("shape", length);
		}
		fields = inside;
	}
	if (known_variables > n)
		put_uint("more", known_variables - n);
}
