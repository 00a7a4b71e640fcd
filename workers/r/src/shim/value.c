/* Encoded values (docs/worker-protocol.md): values of R as bytes, and bytes as values of R. For all systems.
 *
 * R may jump out of every allocation. So all memory is R's own: vectors, and R_alloc(), which R frees
 * when .Call() ends. functions.R says which value becomes which. */
#include "shim.h"

#include <limits.h>
#include <string.h>

enum { MAX_DOCUMENT = 32 << 20, MAX_DEPTH = 128, MAX_VALUES = 4 << 20, MAX_COLUMNS = 4096 };

static const int missing_integer = INT_MIN;

static uint64_t bits_of(double d) {
	uint64_t bits;
	memcpy(&bits, &d, sizeof bits);
	return bits;
}

static double from_bits(uint64_t bits) {
	double d;
	memcpy(&d, &bits, sizeof d);
	return d;
}

/* R's NA is a NaN with this low word. */
static double missing_double(void) { return from_bits(0x7ff00000000007a2); }
static bool is_missing(double d) { return d != d && (bits_of(d) & 0xffffffff) == 1954; }

static SEXP attribute(SEXP x, const char *name) { return Rf_getAttrib(x, Rf_install(name)); }

/* ---- writing */

/* The position of an element in the written value, from the inside out. */
typedef struct position {
	const struct position *up;
	const char *name; /* NULL: it has a number */
	ptrdiff_t index;
} position;

typedef struct {
	uint8_t *at;
	size_t n, room, values;
	const char *kind; /* of the error; NULL: there is none */
	char wrong[700];
} writer;

typedef enum { PLAIN, FACTOR, DATE, TIME, INTEGER64 } meaning;

static bool put(writer *w, SEXP x, const position *at, int depth);

static size_t put_position(char *to, size_t n, size_t room, const position *at, int left) {
	if (at == NULL || left == 0)
		return n;
	n = put_position(to, n, room, at->up, left - 1);
	if (n + 60 > room)
		return n;
	if (at->name == NULL)
		return n + (size_t)snprintf(to + n, room - n, "[%td]", at->index + 1);
	int length = (int)strlen(at->name);
	if (length > 40)
		for (length = 40; length > 0 && (at->name[length] & 0xc0) == 0x80;)
			length--;
	return n + (size_t)snprintf(to + n, room - n, "%s%.*s", n > 0 ? "." : "", length, at->name);
}

/* refuse records why the value cannot be written, and returns false. */
static bool refuse(writer *w, const position *at, const char *kind, const char *why) {
	size_t n = put_position(w->wrong, 0, sizeof w->wrong, at, 8);
	snprintf(w->wrong + n, sizeof w->wrong - n, "%s%s", n > 0 ? ": " : "", why);
	w->kind = kind;
	return false;
}

static bool too_large(writer *w, const position *at) {
	return refuse(w, at, "ValueError", "it is too large: at most 33554432 bytes, and 4194304 values, can be sent");
}

static bool put_bytes(writer *w, const void *from, size_t n, const position *at) {
	if (n > MAX_DOCUMENT - w->n)
		return too_large(w, at);
	if (w->n + n > w->room) {
		size_t room = 2 * (w->n + n) + 256;
		uint8_t *more = (uint8_t *)R_alloc(room, 1);
		if (w->n > 0)
			memcpy(more, w->at, w->n);
		w->at = more, w->room = room;
	}
	if (n > 0)
		memcpy(w->at + w->n, from, n);
	w->n += n;
	return true;
}

static bool put_coded(writer *w, int code, uint64_t v, int width, const position *at) {
	uint8_t b[9] = {(uint8_t)code};
	for (int i = width; i > 0; i--, v >>= 8)
		b[i] = (uint8_t)v;
	return put_bytes(w, b, (size_t)width + 1, at);
}

/* put_size writes the header of a value with a size. small is its first byte, and most the bound. */
static bool put_size(writer *w, int small, size_t most, int code, bool has_byte, size_t n, const position *at) {
	if (n < most)
		return put_coded(w, small | (int)n, 0, 0, at);
	if (has_byte && n < 1 << 8)
		return put_coded(w, code, n, 1, at);
	if (n < 1 << 16)
		return put_coded(w, code + has_byte, n, 2, at);
	return n > UINT32_MAX ? too_large(w, at) : put_coded(w, code + has_byte + 1, n, 4, at);
}

static bool put_array_size(writer *w, ptrdiff_t n, const position *at) { return put_size(w, 0x90, 16, 0xdc, false, (size_t)n, at); }
static bool put_map_size(writer *w, ptrdiff_t n, const position *at) { return put_size(w, 0x80, 16, 0xde, false, (size_t)n, at); }

static bool put_nil(writer *w, const position *at) { return put_coded(w, 0xc0, 0, 0, at); }

static bool put_words(writer *w, const char *text, const position *at) {
	size_t n = strlen(text);
	for (size_t i = 0, k; i < n; i += k)
		if ((k = utf8_length((const uint8_t *)text + i, n - i)) == 0)
			return refuse(w, at, "ValueError", "the text is not UTF-8: send raw bytes");
	return put_size(w, 0xa0, 32, 0xd9, true, n, at) && put_bytes(w, text, n, at);
}

bool value_in_utf8; /* text of no known encoding is UTF-8 */

/* text_of returns text as UTF-8, if it is text. R would show other bytes as <ff>. */
static const char *text_of(SEXP s) {
	return value_in_utf8 && Rf_getCharCE(s) == 0 ? R_CHAR(s) : Rf_translateCharUTF8(s);
}

static bool put_string(writer *w, SEXP s, const position *at) {
	return s == R_NaString ? put_nil(w, at) : put_words(w, text_of(s), at);
}

static bool put_whole(writer *w, int64_t v, const position *at) {
	if (v >= -32 && v < 128)
		return put_coded(w, (uint8_t)v, 0, 0, at);
	for (int i = 0; i < 3; i++) {
		int width = 1 << i;
		if (v >= 0 && v >> (8 * width) == 0)
			return put_coded(w, 0xcc + i, (uint64_t)v, width, at);
		if (v < 0 && v >= -((int64_t)1 << (8 * width - 1)))
			return put_coded(w, 0xd0 + i, (uint64_t)v, width, at);
	}
	return put_coded(w, v >= 0 ? 0xcf : 0xd3, (uint64_t)v, 8, at);
}

static int64_t floor_of(double d) {
	int64_t whole = (int64_t)d;
	return (double)whole > d ? whole - 1 : whole;
}

static bool put_time(writer *w, double t, const position *at) {
	if (!(t > -9e15 && t < 9e15))
		return refuse(w, at, "ValueError", "a time that is infinite, or no number, cannot be sent");
	int64_t seconds = floor_of(t), micros = floor_of((t - (double)seconds) * 1e6 + 0.5);
	if (micros >= 1000000)
		seconds++, micros = 0;
	uint64_t nanos = (uint64_t)micros * 1000;
	if (seconds < 0 || seconds >> 34 != 0)
		return put_bytes(w, "\xc7\x0c", 2, at) && put_coded(w, 0xff, nanos, 4, at) && put_coded(w, (uint8_t)((uint64_t)seconds >> 56), (uint64_t)seconds, 7, at);
	if (nanos > 0 || seconds >> 32 != 0)
		return put_coded(w, 0xd7, 0, 0, at) && put_coded(w, 0xff, nanos << 34 | (uint64_t)seconds, 8, at);
	return put_coded(w, 0xd6, 0, 0, at) && put_coded(w, 0xff, (uint64_t)seconds, 4, at);
}

/* put_date writes a number of days since 1970 as text, by the proleptic Gregorian calendar. */
static bool put_date(writer *w, double d, const position *at) {
	if (!(d > -9e8 && d < 9e8))
		return put_nil(w, at);
	int64_t z = floor_of(d) + 719468, era = (z >= 0 ? z : z - 146096) / 146097, day = z - era * 146097;
	int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	int64_t rest = day - (365 * year + year / 4 - year / 100), month = (5 * rest + 2) / 153;
	char text[64];
	snprintf(text, sizeof text, "%04lld-%02lld-%02lld", (long long)(year + era * 400 + (month >= 10)),
		(long long)(month < 10 ? month + 3 : month - 9), (long long)(rest - (153 * month + 2) / 5 + 1));
	return put_words(w, text, at);
}

static meaning meaning_of(SEXP x) {
	if (attribute(x, "class") == R_NilValue)
		return PLAIN;
	return Rf_inherits(x, "factor") ? FACTOR : Rf_inherits(x, "Date") ? DATE : Rf_inherits(x, "POSIXct") ? TIME :
		Rf_inherits(x, "integer64") && TYPEOF(x) == R_REALSXP ? INTEGER64 : PLAIN;
}

static bool is_atomic(SEXP x) {
	int type = TYPEOF(x);
	return type == R_LGLSXP || type == R_INTSXP || type == R_REALSXP || type == R_STRSXP;
}

/* put_atom writes one element of a vector; NA is nil. */
static bool put_atom(writer *w, SEXP x, meaning m, ptrdiff_t i, const position *at) {
	if (++w->values > MAX_VALUES)
		return too_large(w, at);
	if (TYPEOF(x) == R_STRSXP)
		return put_string(w, STRING_ELT(x, i), at);
	if (m == INTEGER64) {
		int64_t v = (int64_t)bits_of(REAL(x)[i]);
		return v == INT64_MIN ? put_nil(w, at) : put_whole(w, v, at);
	}
	if (TYPEOF(x) == R_REALSXP) {
		double d = REAL(x)[i];
		if (is_missing(d))
			return put_nil(w, at);
		return m == TIME ? put_time(w, d, at) : m == DATE ? put_date(w, d, at) : put_coded(w, 0xcb, bits_of(d), 8, at);
	}
	int v = TYPEOF(x) == R_LGLSXP ? LOGICAL(x)[i] : INTEGER(x)[i];
	if (v == missing_integer)
		return put_nil(w, at);
	if (TYPEOF(x) == R_LGLSXP)
		return put_coded(w, v ? 0xc3 : 0xc2, 0, 0, at);
	if (m == FACTOR) {
		SEXP levels = attribute(x, "levels");
		return v >= 1 && v <= Rf_length(levels) ? put_string(w, STRING_ELT(levels, v - 1), at) : put_nil(w, at);
	}
	return m == TIME ? put_time(w, v, at) : m == DATE ? put_date(w, v, at) : put_whole(w, v, at);
}

/* name_of returns the name of an element of a list or vector, which must have one. */
static const char *name_of(writer *w, SEXP names, ptrdiff_t i, const position *at) {
	SEXP s = STRING_ELT(names, i);
	const char *name = s == R_NaString ? "" : text_of(s);
	if (name[0] == 0) {
		refuse(w, at, "TypeError", "some of its names are empty");
		return NULL;
	}
	return name;
}

static bool put_vector(writer *w, SEXP x, const position *at) {
	meaning m = meaning_of(x);
	ptrdiff_t n = Rf_xlength(x);
	SEXP names = Rf_protect(attribute(x, "names")), dim = attribute(x, "dim");
	bool good = true;
	if (dim != R_NilValue && Rf_length(dim) == 2) { /* an array of its rows */
		ptrdiff_t rows = INTEGER(dim)[0], columns = INTEGER(dim)[1];
		good = put_array_size(w, rows, at);
		for (ptrdiff_t i = 0; good && i < rows; i++) {
			good = put_array_size(w, columns, at);
			for (ptrdiff_t j = 0; good && j < columns; j++)
				good = put_atom(w, x, m, i + j * rows, at);
		}
	} else if (names != R_NilValue) {
		good = put_map_size(w, n, at);
		for (ptrdiff_t i = 0; good && i < n; i++) {
			const char *name = name_of(w, names, i, at);
			position inner = {at, name, 0};
			good = name != NULL && put_words(w, name, &inner) && put_atom(w, x, m, i, &inner);
		}
	} else if (n == 1 && !Rf_inherits(x, "AsIs")) {
		good = put_atom(w, x, m, 0, at);
	} else {
		good = put_array_size(w, n, at);
		for (ptrdiff_t i = 0; good && i < n; i++) {
			position inner = {at, NULL, i};
			good = put_atom(w, x, m, i, &inner);
		}
	}
	Rf_unprotect(1);
	return good;
}

/* put_frame writes a data frame: an array of its rows. */
static bool put_frame(writer *w, SEXP x, const position *at, int depth) {
	SEXP names = Rf_protect(attribute(x, "names"));
	ptrdiff_t columns = Rf_xlength(x), rows = columns > 0 ? Rf_xlength(VECTOR_ELT(x, 0)) : 0;
	meaning *meanings = (meaning *)R_alloc((size_t)columns + 1, sizeof(meaning));
	bool good = true;
	for (ptrdiff_t j = 0; good && j < columns; j++) {
		SEXP column = VECTOR_ELT(x, j);
		position inner = {at, name_of(w, names, j, at), 0};
		meanings[j] = meaning_of(column);
		if (inner.name == NULL)
			good = false;
		else if (Rf_xlength(column) != rows || !(is_atomic(column) || TYPEOF(column) == R_VECSXP) || attribute(column, "dim") != R_NilValue)
			good = refuse(w, &inner, "TypeError", "this column of a data frame is no plain vector or list");
	}
	good = good && put_array_size(w, rows, at);
	for (ptrdiff_t i = 0; good && i < rows; i++) {
		position row = {at, NULL, i};
		good = put_map_size(w, columns, &row);
		for (ptrdiff_t j = 0; good && j < columns; j++) {
			SEXP column = VECTOR_ELT(x, j);
			const char *name = name_of(w, names, j, &row);
			position inner = {&row, name, 0};
			good = name != NULL && put_words(w, name, &inner) &&
				(TYPEOF(column) == R_VECSXP ? put(w, VECTOR_ELT(column, i), &inner, depth + 2) : put_atom(w, column, meanings[j], i, &inner));
		}
	}
	Rf_unprotect(1);
	return good;
}

static bool put_list(writer *w, SEXP x, const position *at, int depth) {
	SEXP names = Rf_protect(attribute(x, "names"));
	bool named = names != R_NilValue;
	ptrdiff_t n = Rf_xlength(x);
	bool good = named ? put_map_size(w, n, at) : put_array_size(w, n, at);
	for (ptrdiff_t i = 0; good && i < n; i++) {
		position inner = {at, named ? name_of(w, names, i, at) : NULL, i};
		if (named)
			good = inner.name != NULL && put_words(w, inner.name, &inner);
		good = good && put(w, VECTOR_ELT(x, i), &inner, depth + 1);
	}
	Rf_unprotect(1);
	return good;
}

static bool put(writer *w, SEXP x, const position *at, int depth) {
	if (depth >= MAX_DEPTH)
		return refuse(w, at, "ValueError", "it is nested deeper than 128");
	if (++w->values > MAX_VALUES)
		return too_large(w, at);
	if (x == R_NilValue)
		return put_nil(w, at);
	if (is_atomic(x))
		return put_vector(w, x, at);
	if (TYPEOF(x) == R_RAWSXP)
		return put_size(w, 0, 0, 0xc4, true, (size_t)Rf_xlength(x), at) && put_bytes(w, RAW(x), (size_t)Rf_xlength(x), at);
	if (TYPEOF(x) != R_VECSXP) {
		char why[120];
		snprintf(why, sizeof why, "a value of type %s cannot be sent", Rf_type2char((unsigned)TYPEOF(x)));
		return refuse(w, at, "TypeError", why);
	}
	if (Rf_inherits(x, "data.frame"))
		return put_frame(w, x, at, depth);
	if (!Rf_inherits(x, "POSIXlt"))
		return put_list(w, x, at, depth);
	SEXP call = Rf_protect(Rf_lang2(Rf_install("as.POSIXct"), x));
	bool good = put_vector(w, Rf_protect(Rf_eval(call, R_BaseEnv)), at);
	Rf_unprotect(2);
	return good;
}

/* value_write returns an encoded list of arguments, which lives until .Call() ends. If at is NULL, the
 * result is the name and message of an error. */
bytes value_write(SEXP x, const char **kind, const char **words) {
	writer *w = (writer *)R_alloc(1, sizeof *w);
	memset(w, 0, sizeof *w);
	if (Rf_length(x) == 0 ? put_map_size(w, 0, NULL) : put(w, x, NULL, 0))
		return (bytes){w->at, w->n};
	*kind = w->kind, *words = w->wrong;
	return (bytes){0};
}

/* ---- reading */

typedef struct {
	const uint8_t *at;
	size_t n, i;
	const char *wrong; /* NULL: no error */
} reader;

typedef enum { NIL, LOGIC, WHOLE, REALS, TEXT, TIMES, RAWS, ARRAY, MAP } kind;

typedef struct {
	kind kind;
	int64_t whole;    /* of WHOLE and LOGIC */
	double real;      /* of REALS, WHOLE and TIMES */
	const uint8_t *at; /* of TEXT and RAWS */
	size_t n;         /* their bytes, or the elements */
} item;

static SEXP get(reader *r, int depth);

static bool bad(reader *r, const char *why) {
	r->wrong = why;
	return false;
}

static bool get_bytes(reader *r, size_t n, const uint8_t **at) {
	if (n > r->n - r->i)
		return bad(r, "the document ends inside a value");
	*at = r->at + r->i;
	r->i += n;
	return true;
}

static bool get_number(reader *r, int width, uint64_t *v) {
	const uint8_t *at;
	if (!get_bytes(r, (size_t)width, &at))
		return false;
	*v = 0;
	while (width-- > 0)
		*v = *v << 8 | *at++;
	return true;
}

static bool get_time(reader *r, uint64_t size, item *to) {
	uint64_t type, nanos = 0, seconds = 0;
	if (!get_number(r, 1, &type))
		return false;
	if (type != 0xff || (size != 4 && size != 8 && size != 12))
		return bad(r, "an extension that is no timestamp");
	if (size == 12 && !get_number(r, 4, &nanos))
		return false;
	if (!get_number(r, size == 4 ? 4 : 8, &seconds))
		return false;
	if (size == 8)
		nanos = seconds >> 34, seconds &= ((uint64_t)1 << 34) - 1;
	if (nanos >= 1000000000)
		return bad(r, "an extension that is no timestamp");
	to->real = (double)(int64_t)seconds + (double)nanos / 1e9;
	return true;
}

static bool get_sized(reader *r, kind k, uint64_t n, item *to) {
	to->kind = k, to->n = (size_t)n;
	if (k == TEXT || k == RAWS)
		return get_bytes(r, to->n, &to->at);
	if (n > MAX_VALUES || (k == MAP ? 2 : 1) * n > r->n - r->i)
		return bad(r, "the document ends inside a value");
	return true;
}

static bool set_whole(item *to, int64_t v) {
	to->kind = WHOLE, to->whole = v, to->real = (double)v;
	return true;
}

/* get_item reads a scalar, or the head of an array or a map. */
static bool get_item(reader *r, item *to) {
	static const struct { uint8_t kind, width; } sized[] = { /* from 0xd9 on */
		{TEXT, 1}, {TEXT, 2}, {TEXT, 4}, {ARRAY, 2}, {ARRAY, 4}, {MAP, 2}, {MAP, 4}
	};
	uint64_t v = 0, code;
	if (!get_number(r, 1, &code))
		return false;
	if (code < 0x80 || code >= 0xe0)
		return set_whole(to, (int8_t)code);
	if (code < 0xc0)
		return code < 0x90 ? get_sized(r, MAP, code & 15, to) : code < 0xa0 ? get_sized(r, ARRAY, code & 15, to) : get_sized(r, TEXT, code & 31, to);
	if (code >= 0xd9)
		return get_number(r, sized[code - 0xd9].width, &v) && get_sized(r, sized[code - 0xd9].kind, v, to);
	int width = 1 << (code & 3);
	to->kind = code == 0xc0 ? NIL : LOGIC;
	to->whole = code & 1;
	switch (code) {
	case 0xc0: case 0xc2: case 0xc3:
		return true;
	case 0xc4: case 0xc5: case 0xc6:
		return get_number(r, width, &v) && get_sized(r, RAWS, v, to);
	case 0xc7:
		to->kind = TIMES;
		return get_number(r, 1, &v) && get_time(r, v, to);
	case 0xd6: case 0xd7:
		to->kind = TIMES;
		return get_time(r, code == 0xd6 ? 4 : 8, to);
	case 0xca: case 0xcb:
		to->kind = REALS;
		if (!get_number(r, code == 0xca ? 4 : 8, &v))
			return false;
		if (code == 0xca) {
			uint32_t half = (uint32_t)v;
			float f;
			memcpy(&f, &half, sizeof f);
			to->real = f;
		} else {
			to->real = from_bits(v);
		}
		return true;
	case 0xcc: case 0xcd: case 0xce: case 0xcf:
	case 0xd0: case 0xd1: case 0xd2: case 0xd3:
		if (!get_number(r, width, &v))
			return false;
		if (code >= 0xd0)
			v = (uint64_t)((int64_t)(v << (64 - 8 * width)) >> (64 - 8 * width));
		else if (v >> 63 != 0)
			v = INT64_MAX;
		set_whole(to, (int64_t)v);
		if (to->whole > (int64_t)1 << 53 || to->whole < -((int64_t)1 << 53))
			return bad(r, "an integer beyond 2^53, which no number of R is exactly: have it sent as text");
		return true;
	}
	return bad(r, "a byte that begins no value");
}

static SEXP character(reader *r, const item *v) {
	for (size_t i = 0, k; i < v->n; i += k) {
		if (v->at[i] == 0 || (k = utf8_length(v->at + i, v->n - i)) == 0) {
			bad(r, v->at[i] == 0 ? "a text with a NUL, which R has not" : "a text that is not UTF-8");
			return NULL;
		}
	}
	return Rf_mkCharLenCE((const char *)v->at, (int)v->n, R_UTF8);
}

/* A vector under construction. seen has a bit for each kind of its elements. */
enum { WIDE = 1 << 16 }; /* some integer does not fit R's integers */

static void note(unsigned *seen, const item *v) {
	*seen |= 1u << v->kind;
	if (v->kind == WHOLE && (v->whole > INT_MAX || v->whole <= INT_MIN))
		*seen |= WIDE;
}

/* type_of returns which vector holds elements of these kinds, or -1. */
static int type_of(unsigned seen) {
	switch (seen & ~(1u << NIL) & ~(unsigned)WIDE) {
	case 0: case 1u << LOGIC:
		return R_LGLSXP;
	case 1u << WHOLE:
		return seen & WIDE ? R_REALSXP : R_INTSXP;
	case 1u << REALS: case 1u << REALS | 1u << WHOLE: case 1u << TIMES:
		return R_REALSXP;
	case 1u << TEXT:
		return R_STRSXP;
	}
	return -1;
}

static bool set(reader *r, SEXP x, ptrdiff_t i, const item *v) {
	SEXP s;
	switch (TYPEOF(x)) {
	case R_LGLSXP:
		LOGICAL(x)[i] = v->kind == NIL ? missing_integer : (int)v->whole;
		return true;
	case R_INTSXP:
		INTEGER(x)[i] = v->kind == NIL ? missing_integer : (int)v->whole;
		return true;
	case R_REALSXP:
		REAL(x)[i] = v->kind == NIL ? missing_double() : v->real;
		return true;
	}
	s = v->kind == NIL ? R_NaString : character(r, v);
	if (s != NULL)
		SET_STRING_ELT(x, i, s);
	return s != NULL;
}

static SEXP text_pair(const char *a, const char *b) {
	SEXP x = Rf_protect(Rf_allocVector(R_STRSXP, b == NULL ? 1 : 2));
	SET_STRING_ELT(x, 0, Rf_mkCharLenCE(a, (int)strlen(a), R_UTF8));
	if (b != NULL)
		SET_STRING_ELT(x, 1, Rf_mkCharLenCE(b, (int)strlen(b), R_UTF8));
	Rf_unprotect(1);
	return x;
}

SEXP value_texts(const char *a, const char *b) { return text_pair(a, b); }

/* finished sets the class of a vector of times; x is protected. */
static SEXP finished(SEXP x, unsigned seen) {
	if (seen & 1u << TIMES) {
		Rf_setAttrib(x, Rf_install("class"), Rf_protect(text_pair("POSIXct", "POSIXt")));
		Rf_setAttrib(x, Rf_install("tzone"), Rf_protect(text_pair("UTC", NULL)));
		Rf_unprotect(2);
	}
	return x;
}

/* scalars returns the kinds of n elements. It stops after an array or a map. */
static unsigned scalars(reader r, size_t n) {
	unsigned seen = 0;
	item v;
	for (size_t i = 0; i < n && seen < 1u << RAWS && get_item(&r, &v); i++)
		note(&seen, &v);
	if (r.wrong != NULL)
		seen |= 1u << RAWS; /* reading the elements one by one reports it */
	return seen & 1u << RAWS ? 1u << RAWS : seen;
}

typedef struct {
	bytes name; /* as encoded */
	unsigned seen;
} column;

/* frame_columns reports whether n objects are the rows of a data frame: they have the same names in
 * the same order, and each column has scalars of one kind. It returns the number of columns in
 * count, or 0. */
static size_t frame_columns(reader r, size_t n, column *columns, size_t count) {
	for (size_t row = 0; row < n; row++) {
		item v, inner;
		if (!get_item(&r, &v) || v.kind != MAP || v.n != count)
			return 0;
		for (size_t j = 0; j < count; j++) {
			size_t begin = r.i;
			if (!get_item(&r, &inner) || inner.kind != TEXT)
				return 0;
			bytes name = {r.at + begin, r.i - begin};
			if (row == 0)
				columns[j] = (column){name, 0};
			else if (name.n != columns[j].name.n || memcmp(name.at, columns[j].name.at, name.n) != 0)
				return 0;
			if (!get_item(&r, &inner) || inner.kind >= RAWS)
				return 0;
			note(&columns[j].seen, &inner);
			if (type_of(columns[j].seen) < 0)
				return 0;
		}
	}
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (columns[i].name.n == columns[j].name.n && memcmp(columns[i].name.at, columns[j].name.at, columns[i].name.n) == 0)
				return 0;
	return count;
}

/* get_frame reads n objects that are the rows of a data frame. */
static SEXP get_frame(reader *r, size_t n, const column *columns, size_t count) {
	SEXP x = Rf_protect(Rf_allocVector(R_VECSXP, (ptrdiff_t)count)), names = Rf_protect(Rf_allocVector(R_STRSXP, (ptrdiff_t)count));
	item v;
	bool good = true;
	for (size_t j = 0; good && j < count; j++) {
		reader name = {columns[j].name.at, columns[j].name.n, 0, NULL};
		SEXP vector = Rf_protect(Rf_allocVector((unsigned)type_of(columns[j].seen), (ptrdiff_t)n));
		SET_VECTOR_ELT(x, (ptrdiff_t)j, finished(vector, columns[j].seen));
		Rf_unprotect(1);
		good = get_item(&name, &v) && set(r, names, (ptrdiff_t)j, &v);
	}
	for (size_t i = 0; good && i < n; i++) {
		good = get_item(r, &v);
		for (size_t j = 0; good && j < count; j++)
			good = get_item(r, &v) && get_item(r, &v) && set(r, VECTOR_ELT(x, (ptrdiff_t)j), (ptrdiff_t)i, &v);
	}
	if (good) {
		SEXP rows = Rf_protect(Rf_allocVector(R_INTSXP, 2));
		INTEGER(rows)[0] = missing_integer, INTEGER(rows)[1] = -(int)n;
		Rf_setAttrib(x, Rf_install("names"), names);
		Rf_setAttrib(x, Rf_install("row.names"), rows);
		Rf_setAttrib(x, Rf_install("class"), Rf_protect(text_pair("data.frame", NULL)));
		Rf_unprotect(2);
	}
	Rf_unprotect(2);
	return good ? x : NULL;
}

static SEXP get_array(reader *r, size_t n, int depth) {
	unsigned seen = n == 0 ? 1u << RAWS : scalars(*r, n);
	int type = type_of(seen);
	reader ahead = *r;
	item first = {0};
	if (type < 0 && n > 0 && get_item(&ahead, &first) && first.kind == MAP && first.n <= MAX_COLUMNS) {
		column *columns = (column *)R_alloc(first.n + 1, sizeof *columns);
		size_t count = frame_columns(*r, n, columns, first.n);
		if (count > 0)
			return get_frame(r, n, columns, count);
	}
	SEXP x = Rf_protect(Rf_allocVector(type < 0 ? R_VECSXP : (unsigned)type, (ptrdiff_t)n));
	bool good = true;
	for (size_t i = 0; good && i < n; i++) {
		item v;
		if (type >= 0) {
			good = get_item(r, &v) && set(r, x, (ptrdiff_t)i, &v);
			continue;
		}
		SEXP inner = get(r, depth + 1);
		if ((good = inner != NULL))
			SET_VECTOR_ELT(x, (ptrdiff_t)i, inner);
	}
	if (good)
		finished(x, type < 0 ? 0 : seen);
	Rf_unprotect(1);
	return good ? x : NULL;
}

static SEXP get_map(reader *r, size_t n, int depth) {
	SEXP x = Rf_protect(Rf_allocVector(R_VECSXP, (ptrdiff_t)n)), names = Rf_protect(Rf_allocVector(R_STRSXP, (ptrdiff_t)n));
	bool good = true;
	for (size_t i = 0; good && i < n; i++) {
		item name;
		SEXP inner = NULL;
		good = get_item(r, &name);
		if (good && name.kind != TEXT)
			good = bad(r, "a key of a map is not text");
		good = good && set(r, names, (ptrdiff_t)i, &name) && (inner = get(r, depth + 1)) != NULL;
		if (good)
			SET_VECTOR_ELT(x, (ptrdiff_t)i, inner);
	}
	if (good)
		Rf_setAttrib(x, Rf_install("names"), names);
	Rf_unprotect(2);
	return good ? x : NULL;
}

static SEXP get(reader *r, int depth) {
	item v;
	if (!get_item(r, &v))
		return NULL;
	if (v.kind == NIL)
		return R_NilValue;
	if (v.kind == ARRAY || v.kind == MAP) {
		if (depth >= MAX_DEPTH) {
			bad(r, "nested deeper than 128");
			return NULL;
		}
		return v.kind == ARRAY ? get_array(r, v.n, depth) : get_map(r, v.n, depth);
	}
	if (v.kind == RAWS) {
		SEXP x = Rf_allocVector(R_RAWSXP, (ptrdiff_t)v.n);
		if (v.n > 0)
			memcpy(RAW(x), v.at, v.n);
		return x;
	}
	unsigned seen = 0;
	note(&seen, &v);
	SEXP x = Rf_protect(Rf_allocVector((unsigned)type_of(seen), 1));
	bool good = set(r, x, 0, &v);
	finished(x, seen);
	Rf_unprotect(1);
	return good ? x : NULL;
}

/* value_read returns the value of encoded bytes, or NULL and what is wrong. */
SEXP value_read(bytes document, const char **wrong) {
	reader r = {document.at, document.n, 0, NULL};
	SEXP x = get(&r, 0);
	if (x != NULL && r.i < r.n)
		r.wrong = "there are bytes behind the value";
	*wrong = r.wrong;
	return r.wrong == NULL ? x : NULL;
}
