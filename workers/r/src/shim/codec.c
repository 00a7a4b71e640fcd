/* The subset of MessagePack that the worker protocol uses. Decoding is strict. For all
 * systems. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FIELDS 64
#define MAX_DEPTH 16 /* of nested maps and arrays, the message included */

size_t utf8_length(const uint8_t *at, size_t n) {
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	if (n == 0)
		return 0;
	if (*at < 0x80)
		return 1;
	size_t length = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : 2;
	if (*at < 0xc2 || *at > 0xf4 || length > n)
		return 0;
	uint32_t c = *at & (0x7f >> length);
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (at[i] & 0x3f);
	}
	if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	return length;
}

static bool is_utf8(bytes b) {
	for (size_t i = 0, k; i < b.n; i += k)
		if ((k = utf8_length(b.at + i, b.n - i)) == 0)
			return false;
	return true;
}

/* ---- decoding */

typedef enum { NIL, TRUTH, NUMBER, NEGATIVE, FRACTION, STRING, BINARY, ARRAY, MAP, INVALID } value_kind;

typedef struct {
	value_kind kind;
	uint64_t number; /* also a TRUTH, and the count of an ARRAY or a MAP */
	bytes data;      /* of STRING and BINARY */
} value;

static uint64_t big_endian(const uint8_t *p, int n) {
	uint64_t v = 0;
	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

/* next reads one value, but not the contents of an array or a map. */
static value next(bytes *in) {
	value v = {INVALID, 0, {NULL, 0}};
	if (in->n == 0)
		return v;
	uint8_t b = *in->at;
	size_t head = 1, body = 0;
	int width = 0; /* of the number after the first byte */
	value_kind kind;
	if (b < 0x80)
		kind = NUMBER, v.number = b;
	else if (b < 0x90)
		kind = MAP, v.number = b & 15;
	else if (b < 0xa0)
		kind = ARRAY, v.number = b & 15;
	else if (b < 0xc0)
		kind = STRING, v.number = b & 31;
	else if (b >= 0xe0)
		kind = NEGATIVE;
	else if (b == 0xc0)
		kind = NIL;
	else if (b == 0xc2 || b == 0xc3)
		kind = TRUTH, v.number = b & 1;
	else if (b >= 0xc4 && b <= 0xc6)
		kind = BINARY, width = 1 << (b - 0xc4);
	else if (b == 0xca || b == 0xcb)
		kind = FRACTION, body = b == 0xca ? 4 : 8;
	else if (b >= 0xcc && b <= 0xcf)
		kind = NUMBER, width = 1 << (b - 0xcc);
	else if (b >= 0xd0 && b <= 0xd3)
		kind = NEGATIVE, width = 1 << (b - 0xd0);
	else if (b >= 0xd9 && b <= 0xdb)
		kind = STRING, width = 1 << (b - 0xd9);
	else if (b == 0xdc || b == 0xdd)
		kind = ARRAY, width = b == 0xdc ? 2 : 4;
	else if (b == 0xde || b == 0xdf)
		kind = MAP, width = b == 0xde ? 2 : 4;
	else
		return v; /* 0xc1 and extensions */
	if (width > 0) {
		head += width;
		if (in->n < head)
			return v;
		v.number = big_endian(in->at + 1, width);
	}
	if (kind == NEGATIVE && width > 0 && !(in->at[1] & 0x80))
		kind = NUMBER; /* a signed encoding of a number that is not negative */
	if (kind == STRING || kind == BINARY)
		body = v.number;
	if (body > in->n - head)
		return v;
	v.data = (bytes){in->at + head, body};
	v.kind = kind;
	in->at += head + body;
	in->n -= head + body;
	return v;
}

/* skip reads one value with its contents. */
static bool skip(bytes *in, int depth) {
	value v = next(in);
	if (v.kind == INVALID)
		return false;
	if (v.kind == STRING)
		return is_utf8(v.data);
	if (v.kind != ARRAY && v.kind != MAP)
		return true;
	if (depth >= MAX_DEPTH)
		return false;
	for (uint64_t i = v.number; i > 0; i--)
		if ((v.kind == MAP && !skip(in, depth + 1)) || !skip(in, depth + 1))
			return false;
	return true;
}

typedef struct {
	bytes key[MAX_FIELDS], value[MAX_FIELDS];
	int n;
	const char *wrong; /* the first error */
} fields;

static bool is(bytes b, const char *s) { return b.n == strlen(s) && memcmp(b.at, s, b.n) == 0; }

static value field(fields *f, const char *name, value_kind kind) {
	value v = {INVALID, 0, {NULL, 0}};
	int seen = 0;
	for (int i = 0; i < f->n; i++) {
		if (!is(f->key[i], name))
			continue;
		bytes in = f->value[i];
		v = next(&in);
		seen++;
	}
	if (seen == 1 && v.kind == kind)
		return v;
	if (f->wrong == NULL)
		f->wrong = seen == 0 ? "a field is missing" : seen > 1 ? "a field comes twice" : "a field has the wrong type";
	return (value){INVALID, 0, {(const uint8_t *)"", 0}};
}

static bool has_field(fields *f, const char *name) {
	for (int i = 0; i < f->n; i++)
		if (is(f->key[i], name))
			return true;
	return false;
}

/* flag_field returns a boolean field, or false if it is absent. */
static bool flag_field(fields *f, const char *name) {
	return has_field(f, name) && field(f, name, TRUTH).number;
}

static uint64_t uint_field(fields *f, const char *name, uint64_t least, uint64_t most) {
	uint64_t n = field(f, name, NUMBER).number;
	if (f->wrong == NULL && (n < least || n > most))
		f->wrong = "a number is out of its bounds";
	return n;
}

const char *decode(bytes in, message *m) {
	fields f = {.n = 0};
	value map = next(&in);
	if (map.kind != MAP)
		return "the payload is not a map";
	if (map.number > MAX_FIELDS)
		return "the map has too many fields";
	for (; f.n < (int)map.number; f.n++) {
		value key = next(&in);
		if (key.kind != STRING || !is_utf8(key.data))
			return "a key is not text";
		bytes from = in;
		if (!skip(&in, 1))
			return "a value is malformed";
		f.key[f.n] = key.data;
		f.value[f.n] = (bytes){from.at, from.n - in.n};
	}
	if (in.n > 0)
		return "there are bytes behind the message";
	memset(m, 0, sizeof *m);
	bytes type = field(&f, "type", STRING).data;
	if (f.wrong != NULL)
		return f.wrong;
	if (is(type, "turn_start")) {
		m->type = TURN_START;
		m->turn = uint_field(&f, "turn", 1, UINT64_MAX);
		m->input = field(&f, "input", BINARY).data;
		m->silent = flag_field(&f, "silent");
		m->cell = has_field(&f, "dialect") && is(field(&f, "dialect", STRING).data, "notebook");
	} else if (is(type, "turn_input")) {
		m->type = TURN_INPUT;
		m->turn = uint_field(&f, "turn", 0, UINT64_MAX);
		m->wait = uint_field(&f, "wait", 1, UINT64_MAX);
		m->input = field(&f, "input", BINARY).data;
		m->eof = field(&f, "eof", TRUTH).number;
	} else if (is(type, "interrupt")) {
		m->type = INTERRUPT;
		m->turn = uint_field(&f, "turn", 0, UINT64_MAX);
		m->seq = uint_field(&f, "seq", 1, UINT64_MAX);
		m->level = uint_field(&f, "level", 1, 2);
	} else if (is(type, "query")) {
		m->type = QUERY;
		m->id = uint_field(&f, "id", 0, UINT64_MAX);
		bytes kind = field(&f, "kind", STRING).data;
		m->text = field(&f, "text", STRING).data;
		m->cursor = uint_field(&f, "cursor", 0, UINT64_MAX);
		m->kind = is(kind, "variables") ? VARIABLES : is(kind, "inspect") ? INSPECT : is(kind, "table") ? TABLE : is(kind, "parse") ? PARSE : COMPLETE;
		if (f.wrong == NULL && m->kind == COMPLETE && !is(kind, "complete"))
			f.wrong = "the kind of query is unknown";
	} else if (is(type, "shutdown")) {
		m->type = SHUTDOWN;
		uint_field(&f, "grace_ms", 0, UINT64_MAX);
	} else if (is(type, "functions")) {
		m->type = FUNCTIONS;
		m->seq = uint_field(&f, "revision", 1, UINT64_MAX);
		m->value = field(&f, "list", BINARY).data;
	} else if (is(type, "call_result")) {
		m->type = CALL_RESULT;
		m->id = uint_field(&f, "id", 1, UINT64_MAX);
		m->value = field(&f, "value", BINARY).data;
		m->more = field(&f, "more", TRUTH).number;
		m->failed = field(&f, "failed", TRUTH).number;
	} else {
		f.wrong = "the type is unknown";
	}
	return f.wrong;
}

/* ---- encoding */

static void put(frame *f, const void *from, size_t n) {
	if (f->n + n > f->room) {
		size_t room = 2 * (f->n + n);
		uint8_t *at = realloc(f->at, room);
		if (at == NULL) {
			f->failed = true;
			return;
		}
		f->at = at, f->room = room;
	}
	memcpy(f->at + f->n, from, n);
	f->n += n;
}

static void put_number(frame *f, uint8_t first, uint64_t v, int width) {
	uint8_t b[9] = {first};
	for (int i = width; i > 0; i--, v >>= 8)
		b[i] = (uint8_t)v;
	put(f, b, 1 + (size_t)width);
}

static void put_str(frame *f, const char *s, size_t n) {
	if (n < 32)
		put_number(f, (uint8_t)(0xa0 | n), 0, 0);
	else
		put_number(f, 0xdb, n, 4);
	put(f, s, n);
}

void frame_begin(frame *f, const char *type, int n) {
	f->n = 0;
	f->failed = false;
	put(f, "\0\0\0\0", 4); /* the length, which is set at the end */
	put_number(f, (uint8_t)(0x80 | (n + 1)), 0, 0);
	put_str(f, "type", 4);
	put_str(f, type, strlen(type));
}

void put_key(frame *f, const char *key) { put_str(f, key, strlen(key)); }

void put_uint(frame *f, const char *key, uint64_t v) {
	put_key(f, key);
	if (v < 0x80)
		put_number(f, (uint8_t)v, 0, 0);
	else
		put_number(f, 0xcf, v, 8);
}

void put_int(frame *f, const char *key, int64_t v) {
	put_key(f, key);
	put_number(f, 0xd3, (uint64_t)v, 8);
}

void put_bool(frame *f, const char *key, bool v) {
	put_key(f, key);
	put_number(f, v ? 0xc3 : 0xc2, 0, 0);
}

void put_text(frame *f, const char *key, const char *text) { put_text_n(f, key, text, strlen(text), MAX_TEXT); }

void put_text_n(frame *f, const char *key, const char *text, size_t n, size_t bound) {
	const uint8_t *from = (const uint8_t *)text;
	size_t end = 0;
	for (size_t k; end < n; end += k) {
		k = utf8_length(from + end, n - end);
		if (k == 0)
			k = 1;
		if (end + k > bound)
			break;
	}
	put_key(f, key);
	put_str(f, text, end);
	if (f->failed)
		return;
	uint8_t *at = f->at + f->n - end;
	for (size_t i = 0, k; i < end; i += k)
		if ((k = utf8_length(at + i, end - i)) == 0)
			at[i] = '?', k = 1;
}

void put_bin_head(frame *f, const char *key, size_t n) {
	put_key(f, key);
	put_number(f, 0xc6, n, 4);
}

void put_bin(frame *f, const char *key, const void *from, size_t n) {
	put_bin_head(f, key, n);
	put(f, from, n);
}

void put_map(frame *f, int n) { put_number(f, (uint8_t)(0x80 | n), 0, 0); }

void put_map_head(frame *f, const char *key, int n) {
	put_key(f, key);
	put_map(f, n);
}

void put_element(frame *f, const char *text) {
	size_t n = strlen(text);
	put_str(f, text, n < MAX_TEXT ? n : 0);
}

void put_array_head(frame *f, const char *key, int n) {
	put_key(f, key);
	put_number(f, 0xdd, (uint64_t)n, 4);
}

long number(const char **at, int base) {
	long n = 0;
	for (;; ++*at) {
		int digit = **at >= 'a' ? **at - 'a' + 10 : **at - '0';
		if (digit < 0 || digit >= base)
			return n;
		n = n * base + digit;
	}
}
